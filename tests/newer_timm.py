#!/usr/bin/python3
"""Prints the ViTs of a timm source tree that models/COVERAGE.md does not name.

    python3 tests/newer_timm.py TIMM        by hand, for a new release; it runs nothing of timm

TIMM is a checkout of https://github.com/huggingface/pytorch-image-models. The modules are read as
text: the keys of default_cfgs are the pretrained tags, the functions after @register_model the
architectures. The status is 1 if something is new. make_coverage.py must then
test it, or give in LACKING the reason why it does not.
"""
import re
import sys
from pathlib import Path

TABLE = Path(__file__).resolve().parent.parent / "models" / "COVERAGE.md"
VITS = ("vision_transformer", "vision_transformer_hybrid", "vision_transformer_relpos",
        "vision_transformer_sam", "deit", "eva", "beit", "naflexvit", "gemma4_vit")
# These modules have patches and blocks, but are no plain ViTs.
OTHERS = ("cait", "coat", "convit", "convnext", "crossvit", "csatv2", "davit", "edgenext", "efficientformer",
          "efficientformer_v2", "efficientvit_mit", "efficientvit_msra", "fasternet", "fastvit", "focalnet",
          "gcvit", "hiera", "hieradet_sam2", "inception_next", "levit", "mambaout", "maxxvit",
          "metaformer", "mlp_mixer", "mobilevit", "mvitv2", "nest", "nextvit", "pit", "pvt_v2",
          "rdnet", "repvit", "sequencer", "shvit", "starnet", "swiftformer", "swin_transformer", "swin_transformer_v2",
          "swin_transformer_v2_cr", "tiny_vit", "tnt", "twins", "visformer", "vitamin", "volo",
          "xcit")


def tags_of(text):
    """The pretrained tags, and the architectures without any."""
    configs = re.findall(r"^\s+['\"]([\w.]+)['\"]\s*:\s*_\w*cfg\(", text, re.M)
    names = re.findall(r"^@register_model\s+def (\w+)\(", text, re.M)
    tagged = {c.split(".")[0] for c in configs}
    return set(configs) | {n for n in names if n not in tagged}


def known(tag, page):
    """True if the page has the tag, one of its architecture's, or the architecture for all tags."""
    any_tag = "" if "." in tag else r"(\.\w+)?"
    return re.search(r"^\| (%s%s|%s) \|" % (re.escape(tag), any_tag, re.escape(tag.split(".")[0])),
                     page, re.M)


def main():
    models = Path(sys.argv[1]) / "timm" / "models"
    page = TABLE.read_text()
    version = (models.parent / "version.py").read_text().split("'")[1]
    count = new = 0
    for path in sorted(models.glob("*.py")):
        text = path.read_text()
        if path.stem in VITS:
            tags = tags_of(text)
            count += len(tags)
            for tag in sorted(t for t in tags if not known(t, page)):
                print("%s: %s" % (path.stem, tag))
                new += 1
        elif path.stem not in OTHERS and not path.stem.startswith("_") and \
                re.search(r"PatchEmbed|patch_embed", text) and "@register_model" in text:
            print("%s: a module with patches that this script does not know" % path.stem)
            new += 1
    print("timm %s: %d tags and architectures in %d modules, %d new" %
          (version, count, len(VITS), new))
    sys.exit(new > 0)


main()
