// camera.mjs - tests the page with Chromium's fake camera (which shows the cat), without a camera,
// and without permission to use the camera.
import { pathOf } from './files.mjs';
import { shownClasses } from './classes.mjs';
import { expect, same, visit } from './harness.mjs';

const fake = ['--use-fake-device-for-media-stream',
              `--use-file-for-fake-video-capture=${pathOf('camera.y4m')}`];
const allowed = [...fake, '--use-fake-ui-for-media-stream'];
const denied = [...fake, '--deny-permission-prompts'];

export default async function camera() {
    await visit('frames of a camera', { flags: allowed }, async (visited) => {
        const { page } = visited;
        const button = page.locator('#camera');
        await button.click();
        await page.waitForFunction(() =>
            / frames a second/.test(document.querySelector('#speed').textContent));
        const [{ name, percent }] = await shownClasses(page);
        same(name, 'cat', 'the class');
        expect(percent > 60, `${percent} %`);
        const speed = await page.locator('#speed').innerText();
        expect(parseFloat(/, ([\d.]+) frames/.exec(speed)?.[1]) > 0.5, `"${speed}"`);
        same(await button.getAttribute('aria-pressed'), 'true', 'pressed');

        await visited.work(() => page.getByRole('button', { name: 'Keep this frame' }).click());
        await page.locator('#caption', { hasText: /^frame 1\.png/ }).waitFor();
        same(await page.locator('#photos li').count(), 1, 'photos');
        await page.locator('#bars li:not(.none)').first().waitFor();
        same((await shownClasses(page))[0].name, 'cat', 'the class of the frame that is kept');
        same(await button.getAttribute('aria-pressed'), 'false', 'pressed, after a frame is kept');

        await button.click();
        await page.waitForFunction(() => !document.querySelector('#video').hidden);
        await button.click();
        await page.waitForFunction(() => document.querySelector('#video').hidden);
        same(await page.evaluate(() => document.querySelector('#video').srcObject), null,
            'the stream');
        return `cat ${percent} %, ${speed}`;
    });

    await visit('a camera that is taken away', { flags: allowed }, async ({ page }) => {
        await page.locator('#camera').click();
        await page.waitForFunction(() =>
            / frames a second/.test(document.querySelector('#speed').textContent));
        await page.evaluate(() => {
            const [track] = document.querySelector('#video').srcObject.getVideoTracks();
            track.stop();
            track.dispatchEvent(new Event('ended')); // as the browser does when it ends the track
        });
        const text = await page.locator('#error p').innerText();
        expect(/has stopped/.test(text), `"${text}"`);
        same([await page.locator('#status').innerText(), await page.locator('#video').isVisible()],
             ['The camera is off', false], 'status, video');
    });

    await visit('a camera and a model without classes', { flags: allowed }, async (visited) => {
        const { page } = visited;
        await visited.drop(pathOf('headless.vit'));
        await page.locator('#camera').click();
        await page.waitForFunction(() => !document.querySelector('#frame').hidden);
        same([await page.locator('#error').innerText(), await page.locator('#speed').innerText()],
             ['', 'This model has no classes: it gives embeddings.'], 'error, what is said');
    });

    await visit('a camera that is not allowed', { flags: denied }, async ({ page }) => {
        await page.locator('#camera').click();
        await page.waitForFunction(() => document.querySelector('#error').textContent);
        const text = await page.locator('#error').innerText();
        expect(/may not use the camera/.test(text), `"${text}"`);
    });

    await visit('no camera', {}, async ({ page }) => {
        await page.locator('#camera').click();
        await page.waitForFunction(() => document.querySelector('#error').textContent);
        const text = await page.locator('#error').innerText();
        expect(/No camera was found|may not use the camera/.test(text), `"${text}"`);
        return text.split('\n')[0];
    });
}
