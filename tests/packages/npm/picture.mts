// picture.mts - what a page shows is a photo, if the types of a page are there.
import { classify, type Prediction } from 'vit-h';

export async function all(image: HTMLImageElement, canvas: HTMLCanvasElement,
                          video: HTMLVideoElement, bitmap: ImageBitmap,
                          pixels: ImageData): Promise<Prediction[][]> {
    // @ts-expect-error: a list is no photo
    await classify(document.body);
    return Promise.all([image, canvas, video, bitmap, pixels].map((photo) => classify(photo)));
}
