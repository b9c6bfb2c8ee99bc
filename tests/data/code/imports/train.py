from net.vit import ViT
