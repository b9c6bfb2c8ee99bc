#!/usr/bin/env python3
"""Makes varied images to measure accuracy on: 1,000 to compare with f32, 256 to calibrate on.

    apt-get download $(python3 models/make_photos.py packages)
    for package in *.deb; do dpkg -x "$package" PACKAGES; done
    python3 models/make_photos.py PACKAGES CIFAR10 OUT

OUT/report and OUT/calibrate share no source. Two thirds are photographed animals, plants, food and
things (the stamps of Tux Paint), of random size on random parts of other photos or on white. A
quarter are random parts of photos. A tenth are enlarged small images of CIFAR-10 (folders test and
train of JPEGs). The same packages give the same images. The script needs Pillow.
"""

import pathlib
import random
import sys

from PIL import Image

PACKAGES = ("python3-skimage python3-sklearn opencv-doc lomiri-wallpapers-16.04 "
            "lomiri-wallpapers-20.04 lxqt-themes mate-backgrounds plasma-workspace-wallpapers "
            "tuxpaint-stamps-default")

SIDE = 256

OBJECTS = ("animals", "food", "hobbies", "household", "military", "plants", "sports", "vehicles")

# Wallpapers that are photos; the other wallpapers are drawings.
WALLPAPERS = """
    Bridge_by_ Dragonfly_by_ Picture_0B Picture_1A Wine_by aitzgorri_by free_by friends_by
    greentock_by life_by picosdeeuropa_by seeding_by sunset_by Fossa_by Kleiber_by Butterfly-Kenneth
    Valendas after-the-rain appleflower beam butterfly cloud drop flowers fog Aqua Blinds Dune
    FreshFlower Garden GreenMeadow LadyBird RainDrops Storm TwoWings YellowFlower
    Autumn/contents/images/2560x1600 BytheWater/contents/images/2560x1600
    ColorfulCups/contents/images/2560x1600 DarkestHour/contents/images/2560x1600
    EveningGlow/contents/images/2560x1600 FallenLeaf/contents/images/2560x1600
    Grey/contents/images/2560x1600 SafeLanding/contents/images/2560x1600 """.split()

# Photos of the libraries.
SAMPLES = """
    astronaut camera chelsea coffee coins motorcycle_left rocket china flower HappyFish aero1 aloeL
    apple baboon basketball1 board box_in_scene building butterfly chicky_512 fruits graf1 home
    leuvenA licenseplate_motion messi5 orange pca_test1 rubberwhale1 smarties squirrel_cls stuff
    cards """.split()


def find_sources(packages):
    """Paths of objects and of photos, in a fixed random order."""
    files = sorted(p for p in pathlib.Path(packages).rglob("*")
                   if p.suffix in (".png", ".jpg") and p.is_file() and not p.is_symlink())
    objects = [p for p in files if "stamps" in p.parts and "cartoon" not in p.parts
               and p.parts[p.parts.index("stamps") + 1] in OBJECTS]
    photos = [p for p in files if any(name in str(p) for name in WALLPAPERS)
              and ("wallpapers" in str(p) or "themes" in str(p) or "backgrounds" in str(p))]
    photos += [p for p in files if p.stem in SAMPLES
               and (p.parent.name == "images" and "datasets" in p.parts
                    or p.parent.name == "data")]
    for paths in objects, photos:
        random.Random(1).shuffle(paths)
    return objects, photos


def open_small(path, mode):
    image = Image.open(path)
    image.draft("RGB", (1600, 1600))
    image = image.convert(mode)
    image.thumbnail((1600, 1600))
    return image


def random_part(rng, image, least):
    """A square that has at least this share of the shorter side."""
    side = round(min(image.size) * rng.uniform(least, 1))
    x, y = (rng.randint(0, n - side) for n in image.size)
    part = image.crop((x, y, x + side, y + side)).resize((SIDE, SIDE), Image.LANCZOS)
    return part.transpose(Image.FLIP_LEFT_RIGHT) if rng.random() < 0.5 else part


def show(rng, stamp, background):
    """The object, 45 to 95 % of the image long, somewhere on the background."""
    stamp = stamp.crop(stamp.getbbox())
    scale = SIDE * rng.uniform(0.45, 0.95) / max(stamp.size)
    stamp = stamp.resize([max(1, round(n * scale)) for n in stamp.size], Image.LANCZOS)
    if rng.random() < 0.5:
        stamp = stamp.transpose(Image.FLIP_LEFT_RIGHT)
    background.paste(stamp, [rng.randint(0, SIDE - n) for n in stamp.size], stamp)
    return background


def make_images(count, sources, seed, folder):
    objects, photos, small = sources
    rng = random.Random(seed)
    opened = [open_small(p, "RGB") for p in photos]
    folder.mkdir(parents=True)
    for i in range(count):
        kind = rng.random()
        if i % 10 == 9:
            image = open_small(rng.choice(small), "RGB").resize((SIDE, SIDE), Image.BICUBIC)
        elif i % 4 == 2:
            image = random_part(rng, opened[i // 4 % len(opened)], 0.4)
        else:
            background = Image.new("RGB", (SIDE, SIDE), "white")
            if kind < 0.7:
                background = random_part(rng, rng.choice(opened), 0.2)
            image = show(rng, open_small(objects[i % len(objects)], "RGBA"), background)
        image.save(folder / f"{i:04}.png")


def main():
    if sys.argv[1:] == ["packages"]:
        print(PACKAGES)
        return
    packages, cifar, out = sys.argv[1:]
    objects, photos = find_sources(packages)
    print(f"{len(objects)} objects, {len(photos)} photos")
    for name, count, part in (("calibrate", 256, slice(0, None, 4)), ("report", 1000, None)):
        few = [objects[::4], photos[::4]]
        sources = few if part else [[p for p in paths if p not in some]
                                    for paths, some in zip((objects, photos), few)]
        small = sorted(pathlib.Path(cifar, "train" if part else "test").rglob("*.jpg"))
        make_images(count, (*sources, small), name, pathlib.Path(out, name))


if __name__ == "__main__":
    main()
