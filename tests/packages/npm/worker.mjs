// worker.mjs - a Worker that receives a photo and sends back its line.
import model from 'vit-h/models/cifar10-vit.vit';
import { lineOf } from './line.mjs';

export default {
    async fetch(request) {
        const photo = await request.arrayBuffer();
        return new Response(await lineOf(photo, { model }).catch((error) => String(error)));
    },
};
