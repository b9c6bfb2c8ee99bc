// camera.mjs - classifies the camera's frames one after the other. It takes a frame only after the
// worker has classified the frame before it.
import { seenOf } from './map.mjs';
import { addPhotos, showClasses } from './photos.mjs';
import { Superseded } from './client.mjs';
import { byId, complain, emit, forgive, say, state } from './state.mjs';

const WINDOW = 1000;               // milliseconds over which frames are counted

let engine = null;
let stream = null;

const reasons = {
    NotAllowedError: 'This page may not use the camera. Allow it in the settings for this page.',
    NotFoundError: 'No camera was found.',
    NotReadableError: 'The camera is in use by another program.',
};

/** Starts the camera, or shows the reason why it does not start. */
export async function startStream() {
    if (!navigator.mediaDevices?.getUserMedia) {
        return complain('The browser allows the camera only on https pages and on localhost.');
    }
    const button = byId('camera'), video = byId('video');
    button.disabled = true;
    try {
        const wanted = { facingMode: 'environment', width: { ideal: 640 }, height: { ideal: 480 } };
        stream = await navigator.mediaDevices.getUserMedia({ video: wanted });
        video.srcObject = stream;
        await video.play();
    } catch (error) {
        stopStream();
        return complain(reasons[error.name] ?? `The camera does not start: ${error.message}`);
    } finally {
        button.disabled = false;
    }
    forgive();
    stream.getVideoTracks()[0].addEventListener('ended', () => {
        stopStream();
        complain('The camera has stopped: it was disconnected, or is no longer allowed.');
    });
    showLive(true);
    follow(stream);
}

export function stopStream() {
    stream?.getTracks().forEach((track) => track.stop());
    stream = null;
    byId('video').srcObject = null;
    if (state.live) showLive(false);
}

function showLive(live) {
    state.live = live;
    heard.said = heard.label = null;
    say(live ? 'The camera is on' : 'The camera is off');
    byId('camera').setAttribute('aria-pressed', live);
    byId('camera').textContent = live ? 'Stop' : 'Camera';
    byId('camera').ariaLabel = live ? 'Stop the camera' : null;
    byId('video').hidden = !live;
    byId('snap').hidden = !live;
    byId('example').hidden = live;
    byId('frame').hidden = true;
    byId('caption').textContent = '';
    emit('live');
}

/** Classifies frames until the camera's stream ends or another stream replaces it. */
async function follow(mine) {
    const video = byId('video'), times = [];
    while (stream === mine) {
        if (document.hidden || !state.model || video.readyState < 2) {
            await new Promise((done) => { setTimeout(done, 100); });
            continue;
        }
        try {
            const bitmap = await createImageBitmap(video);
            const how = { transfer: [bitmap], quiet: true };
            const answer = await engine.ask('frame', { bitmap }, how);
            if (stream !== mine) return;
            times.push(performance.now());
            while (times[0] < times.at(-1) - WINDOW) times.shift();
            show(answer, (times.length - 1) / Math.max(times.at(-1) - times[0], 1) * 1000);
        } catch (error) {
            if (error instanceof Superseded) continue;
            stopStream();
            complain(`The camera's frames cannot be classified: ${error.message}.`);
        }
    }
}

const heard = { label: null, since: 0, said: null };

/** Announces the best class once it has been the best for a while. */
function announce([best]) {
    const label = best.label ?? `class ${best.index}`, now = performance.now();
    if (label !== heard.label) Object.assign(heard, { label, since: now });
    if (label === heard.said || now - heard.since < WINDOW) return;
    heard.said = label;
    say(`Camera: ${label}, ${(100 * best.score).toFixed(0)} %`);
}

function show({ classes, ms, crop }, rate) {
    const digits = rate < 10 ? 1 : 0;
    if (classes) announce(classes);
    showClasses(classes, ms, rate > 0 ? `${rate.toFixed(digits)} frames a second` : '');
    if (crop) showFrame(crop);
}

/** Shows the model's crop on the video. */
function showFrame(crop) {
    const { videoWidth: width, videoHeight: height, clientWidth, clientHeight } = byId('video');
    const scale = Math.min(clientWidth / width, clientHeight / height);
    const seen = seenOf({ width, height, crop });
    seen.left = seen.x + (clientWidth / scale - width) / 2;
    seen.top = seen.y + (clientHeight / scale - height) / 2;
    for (const side of ['left', 'top', 'width', 'height']) {
        byId('frame').style[side] = `${seen[side] * scale}px`;
    }
    byId('frame').hidden = false;
}

let kept = 0;

/** Returns the frame as a PNG file, which keeps its pixels unchanged; null if there is no frame. */
export async function grabFrame() {
    const video = byId('video');
    if (!stream || video.readyState < 2) return null;
    const canvas = new OffscreenCanvas(video.videoWidth, video.videoHeight);
    canvas.getContext('2d').drawImage(video, 0, 0);
    const blob = await canvas.convertToBlob({ type: 'image/png' });
    return new File([blob], `frame ${++kept}.png`, { type: 'image/png' });
}

async function keepFrame() {
    const file = await grabFrame();
    stopStream();
    if (file) await addPhotos([file]);
}

export function startCamera(client) {
    engine = client;
    byId('camera').addEventListener('click', () => (state.live ? stopStream() : startStream()));
    byId('snap').addEventListener('click', keepFrame);
}
