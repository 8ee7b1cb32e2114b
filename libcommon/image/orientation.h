// Pictures that a camera was held askew for: which way up they are is said in their files.
#pragma once

#include "base/file_part.h"
#include "image/image.h"

namespace mt {

// EXIF's tag 274 of a JPEG, PNG or WebP file, 2 to 8; 1 where it is upright, or says nothing.  It
// is what Pillow's getexif() finds (13.0): the segments APP1 of a JPEG joined, a PNG's eXIf, else
// what its text "Raw profile type exif" has in hexadecimal digits, a WebP's EXIF; where these have
// no such tag, the first tiff:Orientation of its XMP.  What is damaged turns nothing.
int orientation_of(Bytes file);

// The picture turned or mirrored, so that it is upright (Pillow's ImageOps.exif_transpose()):
//   2 left and right change   3 half a turn   4 top and bottom change   5 rows become columns
//   6 a quarter to the right  7 rows become columns, half a turn        8 a quarter to the left
Image upright(Image image, int orientation);

// decode_image() and read_image(), upright: what transformers' load_image(), datasets and
// LLaVA's processors make of a file.  Folders of classes keep pictures as they are, as torchvision
// does.
Image decode_upright(Bytes file, const std::string& where, const ImageLimits& limits = {});
Image read_upright(const FilePart& part, const ImageLimits& limits = {});
// The size of what read_upright() makes, by the file's header.
ImageSize upright_size(const FilePart& part, const ImageLimits& limits = {});

}  // namespace mt
