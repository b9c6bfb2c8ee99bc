using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [(name = "main", worker = (compatibilityDate = "2026-11-01", modules = [
    (name = "worker.js", esModule = embed "worker.js"),
    (name = "photo.wasm", wasm = embed "photo.wasm"),
    (name = "vit.wasm", wasm = embed "vit.wasm"),
    (name = "cifar10-vit.vit", data = embed "cifar10-vit.vit")]))],
  sockets = [(name = "http", address = "127.0.0.1:0", http = (), service = "main")]);
