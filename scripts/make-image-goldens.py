#!/usr/bin/env python3
"""Write small images of odd sizes in every mode, and hashes of what Pillow makes of them.

FOLDER gets JPEG, PNG and WebP files of noise and gradients, and images.golden: after a line that names the versions, for
each file and operation a line "FILE OPERATION NUMBER... HASH", the FNV-1a of width, height and pixels as red, green
and blue.  Operations are of convert("RGB"), Image.resize, Image.rotate, ImageEnhance, ImageFilter and ImageOps, and torchvision's
short side and centre crop, written out; those named step-NAME are AutoAugment's, of a level of 0 to 10 and a sign.

Run:  scripts/make-image-goldens.py testdata/images
      scripts/make-image-goldens.py FOLDER --count 200 --seed 7 --test build/release/tests/image/image_test
Needs from PyPI: Pillow, numpy (tried with 13.0.0, 2.4.6).
"""
import argparse
import os
import pathlib
import struct
import subprocess
import zlib

import numpy as np
import PIL
from PIL import Image, ImageEnhance, ImageFilter, ImageOps

from image_sum import image_sum

# --- PNG files that Pillow does not write -----------------------------------------------------------


def chunk(name, data):
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def packed(rows, depth):
    """Rows of samples, [height, samples], as bytes of lines without a filter."""
    lines = b""
    for row in rows:
        if depth == 16:
            line = row.astype(">u2").tobytes()
        else:
            bits = ((row[:, None] >> np.arange(depth - 1, -1, -1)) & 1).astype(np.uint8).ravel()
            line = np.packbits(bits).tobytes()
        lines += b"\0" + line
    return lines


def png(samples, depth, color, interlaced=False, palette=None, transparent=None):
    """A PNG file of samples [height, width, channels]."""
    height, width, _ = samples.shape
    header = struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, int(interlaced))
    passes = [(0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1)]
    data = b""
    for top, left, down, right in passes if interlaced else [(0, 0, 1, 1)]:
        part = samples[top::down, left::right]
        if part.size:
            data += packed(part.reshape(part.shape[0], -1), depth)
    parts = [chunk(b"IHDR", header)]
    if palette is not None:
        parts.append(chunk(b"PLTE", palette))
    if transparent is not None:
        parts.append(chunk(b"tRNS", transparent))
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts) + chunk(b"IDAT", zlib.compress(data)) + chunk(b"IEND", b"")


# --- Images -------------------------------------------------------------------------------------------


def samples_of(random, height, width, channels, most):
    """A gradient with noise, of odd steepness."""
    y, x = np.mgrid[0:height, 0:width]
    slopes = random.uniform(-0.2, 0.2, (2, channels))
    base = random.uniform(0.2, 0.8, channels)
    noise = random.normal(0, random.choice([0.01, 0.3]), (height, width, channels))
    value = base + (x / 8)[..., None] * slopes[0] + (y / 8)[..., None] * slopes[1] + noise
    return (np.clip(value, 0, 1) * most).round().astype(np.uint16)


def write_png(path, random, width, height, kind):
    def of(channels, most):
        return samples_of(random, height, width, channels, most)

    palette = random.integers(0, 256, 3 * 11, dtype=np.uint8).tobytes()
    files = {
        "grey1": lambda: png(of(1, 1), 1, 0),
        "grey2": lambda: png(of(1, 3), 2, 0),
        "grey4": lambda: png(of(1, 15), 4, 0),
        "grey8": lambda: png(of(1, 255), 8, 0),
        "grey16": lambda: png(of(1, 600), 16, 0),
        "greyalpha8": lambda: png(of(2, 255), 8, 4),
        "greyalpha16": lambda: png(of(2, 65535), 16, 4),
        "rgb8": lambda: png(of(3, 255), 8, 2),
        "rgb16": lambda: png(of(3, 65535), 16, 2),
        "rgb8key": lambda: png(of(3, 255), 8, 2, transparent=struct.pack(">HHH", 1, 2, 3)),
        "rgba8": lambda: png(of(4, 255), 8, 6),
        "rgba16": lambda: png(of(4, 65535), 16, 6),
        "palette4": lambda: png(of(1, 10), 4, 3, palette=palette),
        "palette8": lambda: png(of(1, 10), 8, 3, palette=palette, transparent=b"\0\x80"),
        "palette8short": lambda: png(of(1, 15), 8, 3, palette=palette),
        "rgb8interlaced": lambda: png(of(3, 255), 8, 2, interlaced=True),
        "grey16interlaced": lambda: png(of(1, 600), 16, 0, interlaced=True),
        "palette2interlaced": lambda: png(of(1, 3), 2, 3, interlaced=True, palette=palette),
    }
    path.write_bytes(files[kind]())


def write_jpeg(path, random, width, height, kind):
    mode = {"grey": "L", "cmyk": "CMYK"}.get(kind, "RGB")
    image = Image.fromarray(samples_of(random, height, width, len(mode), 255).astype(np.uint8).squeeze(-1 if mode == "L" else ()), mode)
    options = {
        "grey": {},
        "cmyk": {},
        "444": {"subsampling": 0},
        "422": {"subsampling": 1},
        "420": {"subsampling": 2},
        "progressive": {"progressive": True},
        "rgb": {"keep_rgb": True},
    }[kind]
    image.save(path, "JPEG", quality=int(random.integers(30, 96)), **options)


def write_webp(path, random, width, height, kind):
    channels = 4 if "alpha" in kind else 3
    samples = samples_of(random, height, width, channels, 255).astype(np.uint8)
    image = Image.fromarray(samples, "RGBA" if channels == 4 else "RGB")
    image.save(path, "WEBP", lossless="lossless" in kind, exact=True, quality=int(random.integers(20, 96)))


KINDS = [(write_png, "png", kind) for kind in
         "grey1 grey2 grey4 grey8 grey16 greyalpha8 greyalpha16 rgb8 rgb16 rgb8key rgba8 rgba16 palette4 palette8 palette8short "
         "rgb8interlaced grey16interlaced palette2interlaced".split()]
KINDS += [(write_jpeg, "jpg", kind) for kind in "grey cmyk 444 422 420 progressive rgb".split()]
KINDS += [(write_webp, "webp", kind) for kind in "lossy lossyalpha lossless losslessalpha".split()]

# --- Operations -----------------------------------------------------------------------------------------


def resized(filter):
    return lambda image, width, height: image.resize((width, height), filter)


def middle(image, side, width, height):
    """torchvision's Resize(side) and CenterCrop((height, width)), bilinear."""
    short, long = sorted(image.size)
    other = int(side * long / short)
    image = image.resize((side, other) if image.width <= image.height else (other, side), Image.Resampling.BILINEAR)
    if image.width < width or image.height < height:
        left, top = max(width - image.width, 0), max(height - image.height, 0)
        larger = Image.new("RGB", (image.width + left, image.height + top))
        larger.paste(image, (left // 2, top // 2))
        image = larger
    left, top = round((image.width - width) / 2), round((image.height - height) / 2)
    return image.crop((left, top, left + width, top + height))


def hue(image, by):
    h, s, v = image.convert("HSV").split()
    turned = np.array(h) + np.array(int(by * 255)).astype(np.uint8)
    return Image.merge("HSV", (Image.fromarray(turned, "L"), s, v)).convert("RGB")


def shear(image, by):
    return image.transform(image.size, Image.Transform.AFFINE, (1, by, 0, 0, 1, 0), Image.Resampling.BICUBIC,
                           fillcolor=(128, 128, 128))


def rotate(image, degrees):
    """On grey: what comes from outside is transparent, and shows it."""
    turned = image.convert("RGBA").rotate(degrees)
    return Image.composite(turned, Image.new("RGBA", image.size, (128, 128, 128, 128)), turned).convert("RGB")


def levels(first, last):
    return np.linspace(first, last, 11)


def either_way(enhancer):
    return lambda image, level, sign: enhancer(image).enhance(1 + sign * levels(0, 0.9)[level])


STEPS = {
    "posterize": lambda image, level, _: ImageOps.posterize(image, int(np.round(levels(8, 4)[level]))),
    "rotate": lambda image, level, _: rotate(image, levels(0, 30)[level]),
    "solarize": lambda image, level, _: ImageOps.solarize(image, levels(256, 0)[level]),
    "color": either_way(ImageEnhance.Color),
    "contrast": either_way(ImageEnhance.Contrast),
    "sharpness": either_way(ImageEnhance.Sharpness),
    "shear": lambda image, level, sign: shear(image, sign * levels(0, 0.3)[level]),
}
ONE_WAY = {"posterize": [5, 6, 7, 8], "rotate": [3, 8, 9], "solarize": [3, 4, 5, 7, 8]}
EITHER_WAY = {"color": [0, 2, 4, 8], "contrast": [8], "sharpness": [7], "shear": [5]}

OPERATIONS = {
    "rgb": lambda image: image,
    "bilinear": resized(Image.Resampling.BILINEAR),
    "bicubic": resized(Image.Resampling.BICUBIC),
    "middle": middle,
    "brightness": lambda image, by: ImageEnhance.Brightness(image).enhance(by),
    "contrast": lambda image, by: ImageEnhance.Contrast(image).enhance(by),
    "saturation": lambda image, by: ImageEnhance.Color(image).enhance(by),
    "sharpness": lambda image, by: ImageEnhance.Sharpness(image).enhance(by),
    "hue": hue,
    "posterize": ImageOps.posterize,
    "solarize": ImageOps.solarize,
    "invert": ImageOps.invert,
    "stretch": ImageOps.autocontrast,
    "equalize": ImageOps.equalize,
    "mirror": ImageOps.mirror,
    "blur": lambda image, radius: image.filter(ImageFilter.GaussianBlur(radius)),
    "shear": shear,
    "rotate": rotate,
    **{"step-" + name: step for name, step in STEPS.items()},
}


def requests(random, width, height):
    def size():
        return int(random.integers(1, 70))

    side = size()
    yield "rgb", []
    yield "bilinear", [size(), size()]
    yield "bicubic", [size(), size()]
    yield "bilinear", [width, size()]
    yield "bicubic", [size(), height]
    yield "bilinear", [side, side]
    yield "middle", [side, side, side]
    yield "middle", [side, side + 3, side + 4]
    for name in ["brightness", "contrast", "saturation", "sharpness"]:
        yield name, [round(random.uniform(0, 2), 3)]
    yield "hue", [round(random.uniform(-0.5, 0.5), 3)]
    yield "posterize", [int(random.integers(1, 9))]
    yield "solarize", [int(random.integers(0, 257))]
    for name in ["invert", "stretch", "equalize", "mirror"]:
        yield name, []
    yield "shear", [round(random.uniform(-0.3, 0.3), 3)]
    for degrees in [27, -27, 24, -24, 9, -9]:
        yield "rotate", [degrees]
    for radius in [0.1, 0.62, 1.3, 2, 5]:
        yield "blur", [radius]
    for signs, of_steps in [[1], ONE_WAY], [[1, -1], EITHER_WAY]:
        for name, strengths in of_steps.items():
            for level in strengths:
                for sign in signs:
                    yield "step-" + name, [level, sign]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--count", type=int, default=len(KINDS))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--largest", type=int, default=40)
    parser.add_argument("--test", help="the test program that makes the same")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(args.seed)
    golden = args.folder / "images.golden"
    with open(golden, "w", encoding="ascii") as out:
        out.write(f"# scripts/make-image-goldens.py; Pillow {PIL.__version__}, numpy {np.__version__}\n")
        for i in range(args.count):
            write, ending, kind = KINDS[i % len(KINDS)]
            width, height = (int(n) for n in random.integers(1, args.largest + 1, 2))
            name = f"{kind}{'' if i < len(KINDS) else i}.{ending}"
            write(args.folder / name, random, width, height, kind)
            image = Image.open(args.folder / name).convert("RGB")
            for operation, numbers in requests(random, width, height):
                made = OPERATIONS[operation](image, *numbers)
                out.write(" ".join([name, operation, *map(str, numbers), image_sum(made)]) + "\n")
    if args.test:
        subprocess.run([args.test, "--file=image_golden_test.cpp"], env={**os.environ, "MT_GOLDEN": str(golden)}, check=True)


if __name__ == "__main__":
    main()
