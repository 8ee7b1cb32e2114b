#!/usr/bin/env python3
"""Write small pictures with tags that turn them, and hashes of what Pillow's exif_transpose() makes of them.

FILE gets lines "NAME HEX HASH": a JPEG, PNG or WebP file of EXIF data or XMP that are whole, cut off, doubled, of other
types or in other places, and the FNV-1a of width, height and pixels as red, green and blue.  Where Pillow raises an
error of tags that are damaged the picture is as it stands in the file, and NAME ends with "!".

Run:  scripts/make-turned-image-goldens.py testdata/images/turned.golden
      scripts/make-turned-image-goldens.py FILE --count 20000 --seed 7 --test build/release/tests/image/image_test
Needs from PyPI: Pillow, numpy (tried with 13.0.0, 2.4.6).
"""
import argparse
import io
import os
import pathlib
import struct
import subprocess
import warnings
import zlib

import numpy as np
import PIL
from PIL import Image, ImageOps

from image_sum import image_sum

EXIF = b"Exif\0\0"
XMP = b"http://ns.adobe.com/xap/1.0/\0"


def tiff(*tags, big=False, order=None, start=8):
    """A TIFF file of tags (number, type, count, bytes of values), where longer ones stand behind."""
    end = ">" if big else "<"
    head = order or (b"MM\0*" if big else b"II*\0")
    rows, behind = b"", b""
    at = start + 2 + 12 * len(tags) + 4
    for number, kind, count, data in tags:
        value = data.ljust(4, b"\0")
        if len(data) > 4:
            value = struct.pack(end + "I", at + len(behind))
            behind += data
        rows += struct.pack(end + "HHI", number, kind, count) + value
    return head + struct.pack(end + "I", start) + bytes(start - 8) + struct.pack(end + "H", len(tags)) + rows + bytes(4) + behind


def turn(value, big=False, **others):
    return tiff((256, 4, 1, b"\1\2\3\4"), (274, 3, 1, struct.pack(">H" if big else "<H", value)), (305, 2, 6, b"names\0"), big=big, **others)


def typed(kind, count, data):
    return tiff((274, kind, count, data))


EXIFS = {f"turn{value}{'big' * big}": turn(value, big) for value in range(10) for big in (False, True)}
EXIFS |= {
    "later": turn(6, start=23),
    "swapped": turn(6, order=b"II\0*"),
    "bigswapped": turn(8, True, order=b"MM*\0"),
    "long": typed(4, 1, struct.pack("<I", 5)),
    "byte": typed(1, 1, b"\6"),
    "ascii": typed(2, 2, b"6\0"),
    "undefined": typed(7, 1, b"\6"),
    "signedbyte": typed(6, 1, b"\3"),
    "signedshort": typed(8, 1, b"\2\0"),
    "signedlong": typed(9, 1, struct.pack("<i", 7)),
    "float": typed(11, 1, struct.pack("<f", 6)),
    "double": typed(12, 1, struct.pack("<d", 4)),
    "rational": typed(5, 1, struct.pack("<II", 12, 2)),
    "signedrational": typed(10, 1, struct.pack("<ii", -9, -3)),
    "noratio": typed(5, 1, struct.pack("<II", 6, 0)),
    "ifd": typed(13, 1, struct.pack("<I", 2)),
    "long8": typed(16, 1, struct.pack("<Q", 8)),
    "unknown": typed(14, 1, b"\6\0"),
    "two": typed(3, 2, b"\6\0\3\0"),
    "three": typed(3, 3, b"\6\0\3\0\2\0"),
    "none": typed(3, 0, b"\6\0"),
    "twice": tiff((274, 3, 1, b"\6\0"), (274, 3, 1, b"\3\0")),
    "emptythenfull": tiff((274, 3, 0, b"\6\0"), (274, 3, 1, b"\3\0")),
    "large": tiff((305, 2, 1 << 20, b"name"), (274, 3, 1, b"\6\0")),
    "outside": tiff((305, 2, 8, b"name"), (274, 3, 1, b"\6\0")),
    "nowhere": tiff((274, 3, 1, b"\6\0")).replace(b"\x08\0\0\0", b"\xff\0\0\0", 1),
    "cut": turn(6)[:36],
    "cutearly": turn(6)[:20],
    "more": turn(6).replace(b"\3\0", b"\xff\xff", 1),
    "other": tiff((305, 2, 6, b"names\0")),
    "header": b"II*\0\x08",
    "nothing": b"",
    "words": b"no TIFF file at all",
    "bigtiff": b"II+\0\x08\0\0\0" + turn(6),
}
XMPS = {
    "attribute": b'<rdf:Description tiff:Orientation="6"/>',
    "element": b"<tiff:Orientation>8</tiff:Orientation>",
    "both": b'tiff:Orientation="x" tiff:Orientation="12" tiff:Orientation>3',
    "zero": b'tiff:Orientation="0"',
    "no": b"tiff:Orientation='6'",
}

# --- Files ----------------------------------------------------------------------------------------------


def segment(data, marker=0xE1):
    return struct.pack(">BBH", 0xFF, marker, len(data) + 2) + data


def chunk(name, data):
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def saved(kind):
    pixels = np.array([[[10, 200, 30], [250, 20, 90], [0, 0, 255]], [[255, 255, 0], [60, 60, 60], [128, 0, 128]]], np.uint8)
    file = io.BytesIO()
    image = Image.fromarray(pixels, "RGB")
    image.convert("L").save(file, "JPEG", optimize=True) if kind == "jpg" else image.save(file, {"png": "PNG", "webp": "WEBP"}[kind], lossless=True)
    return file.getvalue()


JPEG, PNG, WEBP = saved("jpg"), saved("png"), saved("webp")


def jpeg(*segments, dpi=True):
    """With JFIF's segment, which says how many dots an inch has, or without."""
    begin = 20
    return JPEG[:2] + (segment(b"JFIF\0\1\1\1\0\x48\0\x48\0\0", 0xE0) if dpi else b"") + b"".join(segments) + JPEG[begin:]


def png(*chunks, behind=()):
    at, end = PNG.index(b"IDAT") - 4, PNG.index(b"IEND") - 4
    return PNG[:at] + b"".join(chunks) + PNG[at:end] + b"".join(behind) + PNG[end:]


def riff(*chunks):
    body = b"".join(name + struct.pack("<I", len(data)) + data + bytes(len(data) % 2) for name, data in chunks)
    return b"RIFF" + struct.pack("<I", len(body) + 4) + b"WEBP" + body


def webp(*chunks, flags=12):
    size = struct.unpack("<I", WEBP[16:20])[0]
    return riff((b"VP8X", bytes([flags, 0, 0, 0, 2, 0, 0, 1, 0, 0])), (WEBP[12:16], WEBP[20 : 20 + size]), *chunks)


def profile(exif):
    text = (EXIF + exif).hex()
    return f"\nexif\n{len(text) // 2:8}\n{text[:20]}\n{text[20:]}\n".encode()


def itxt(key, text, packed=0):
    return chunk(b"iTXt", key + bytes([0, packed, 0]) + b"en\0name\0" + (zlib.compress(text) if packed else text))


def files():
    for name, exif in EXIFS.items():
        yield f"exif-{name}.jpg", jpeg(segment(EXIF + exif))
        yield f"exif-{name}.png", png(chunk(b"eXIf", exif))
        if not name.startswith("turn"):
            continue
        yield f"exif-{name}.webp", webp((b"EXIF", exif))
        yield f"profile-{name}.png", png(chunk(b"zTXt", b"Raw profile type exif\0\0" + zlib.compress(profile(exif))))
    for name, xmp in XMPS.items():
        yield f"xmp-{name}.jpg", jpeg(segment(XMP + xmp))
        yield f"xmp-{name}.png", png(itxt(b"XML:com.adobe.xmp", xmp))
        yield f"xmp-{name}.webp", webp((b"XMP ", xmp))
    six, xmp = turn(6), XMPS["element"]
    other, padded = EXIFS["other"], EXIF + six
    yield "parts.jpg", jpeg(segment(EXIF + six[:30]), segment(b"other"), segment(EXIF + six[30:]))
    yield "twonames.jpg", jpeg(segment(EXIF + padded))
    yield "twonames.webp", webp((b"EXIF", padded))
    yield "threenames.jpg", jpeg(segment(EXIF + EXIF + padded))
    yield "nodpi.jpg", jpeg(segment(EXIF + six), dpi=False)
    yield "nodpi-words.jpg", jpeg(segment(EXIF + EXIFS["words"]), segment(XMP + xmp), dpi=False)
    yield "exif-xmp.jpg", jpeg(segment(EXIF + six), segment(XMP + xmp))
    yield "other-xmp.jpg", jpeg(segment(EXIF + other), segment(XMP + xmp))
    yield "byte-xmp.jpg", jpeg(segment(EXIF + EXIFS["byte"]), segment(XMP + xmp))
    yield "empty-xmp.jpg", jpeg(segment(EXIF), segment(XMP + xmp))
    yield "xmp-xmp.jpg", jpeg(segment(XMP + XMPS["attribute"]), segment(XMP + xmp))
    yield "filled.jpg", jpeg(b"\xff\xff\xff" + segment(EXIF + six), b"junk\xff\0")
    yield "comment.jpg", jpeg(segment(EXIF + six, 0xFE))
    yield "behind.png", png(behind=[chunk(b"eXIf", six)])
    yield "two.png", png(chunk(b"eXIf", six), behind=[chunk(b"eXIf", turn(3))])
    yield "named.png", png(chunk(b"eXIf", padded))
    yield "exif-profile.png", png(chunk(b"eXIf", six), chunk(b"tEXt", b"Raw profile type exif\0" + profile(turn(3))))
    yield "profile.png", png(chunk(b"tEXt", b"Raw profile type exif\0" + profile(six)))
    yield "profile-itxt.png", png(itxt(b"Raw profile type exif", profile(six), 1))
    yield "profile-short.png", png(chunk(b"tEXt", b"Raw profile type exif\0" + b"\nexif"))
    yield "profile-odd.png", png(chunk(b"tEXt", b"Raw profile type exif\0" + profile(six)[:-2]))
    yield "profile-xmp.png", png(chunk(b"tEXt", b"Raw profile type exif\0" + profile(other)), itxt(b"XML:com.adobe.xmp", xmp, 1))
    yield "text-xmp.png", png(chunk(b"tEXt", b"XML:com.adobe.xmp\0" + xmp))
    yield "broken.png", png(chunk(b"zTXt", b"Raw profile type exif\0\0zlib"), itxt(b"XML:com.adobe.xmp", xmp))
    yield "othertext.png", png(chunk(b"tEXt", b"Comment\0" + xmp))
    yield "hidden.webp", webp((b"EXIF", six), (b"XMP ", xmp), flags=0)
    yield "hiddenexif.webp", webp((b"EXIF", six), (b"XMP ", xmp), flags=4)
    yield "first.webp", webp((b"EXIF", turn(3)), (b"EXIF", six))
    yield "odd.webp", webp((b"ABCD", b"odd"), (b"EXIF", six))
    yield "empty.webp", webp((b"EXIF", b""), (b"XMP ", xmp))


def changed(random, count):
    """Files with other bytes in what turns them."""
    parts = list(EXIFS.items())
    for i in range(count):
        name, exif = parts[random.integers(len(parts))]
        exif = bytearray(exif)
        for _ in range(random.integers(1, 4)):
            if exif:
                exif[random.integers(len(exif))] = random.choice([0, 1, 2, 3, 4, 5, 6, 8, 12, 18, 255])
        make = [lambda b: jpeg(segment(EXIF + b)), lambda b: png(chunk(b"eXIf", b)), lambda b: webp((b"EXIF", b))][i % 3]
        yield f"changed{i}-{name}", make(bytes(exif))


TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


def upright(file):
    """The picture of a file, and whether Pillow cannot read what turns it.  It may fail to write the other tags again."""
    try:
        return ImageOps.exif_transpose(Image.open(io.BytesIO(file))), False
    except (SyntaxError, LookupError, ValueError, struct.error):
        image = Image.open(io.BytesIO(file))
    try:
        turn = TURNS.get(image.getexif().get(274))
        return image.transpose(turn) if turn is not None else image, False
    except (SyntaxError, LookupError, ValueError, struct.error):
        return image, True


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("--count", type=int, default=0, help="as many more, with other bytes")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--test", help="the test program that makes the same")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    with open(args.file, "w", encoding="ascii") as out:
        out.write(f"# scripts/make-turned-image-goldens.py; Pillow {PIL.__version__}\n")
        for name, file in [*files(), *changed(np.random.default_rng(args.seed), args.count)]:
            image, is_damaged = upright(file)
            out.write(f"{name}{'!' * is_damaged} {file.hex()} {image_sum(image.convert('RGB'))}\n")
    if args.test:
        subprocess.run([args.test, "--file=image_golden_test.cpp"], env={**os.environ, "MT_TURNED_GOLDEN": str(args.file)}, check=True)


if __name__ == "__main__":
    main()
