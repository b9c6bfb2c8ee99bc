// worker.mjs - replaces index.mjs for Cloudflare's Workers, which compile WebAssembly only during
// deployment.
import photo from './vit/photo.wasm';
import vit from './vit/vit.wasm';
import { provide } from './vit/vit.mjs';

provide({ 'vit.wasm': vit, 'photo.wasm': photo });

export * from './index.mjs';
