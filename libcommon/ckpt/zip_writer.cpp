#include <zlib.h>

#include <algorithm>

#include "base/error.h"
#include "ckpt/zip.h"
#include "ckpt/zip_format.h"

namespace mt {
namespace {

// Little-endian fields one after another.
class Fields {
 public:
  Fields& u16(std::uint64_t number) { return little(number, 2); }
  Fields& u32(std::uint64_t number) { return little(number, 4); }
  Fields& u64(std::uint64_t number) { return little(number, 8); }
  Fields& text(std::string_view bytes) {
    out_ += bytes;
    return *this;
  }
  const std::string& bytes() const { return out_; }

 private:
  Fields& little(std::uint64_t number, int bytes) {
    for (int i = 0; i < bytes; ++i) out_ += static_cast<char>(number >> 8 * i);
    return *this;
  }
  std::string out_;
};

std::uint64_t clipped(std::uint64_t number) { return std::min(number, zip::kLarge); }

// The zip64 extra field: empty unless the size or the offset is large.
std::string zip64_extra(std::uint64_t size, std::uint64_t packed, std::uint64_t header_offset) {
  Fields content;
  if (size >= zip::kLarge) content.u64(size).u64(packed);
  if (header_offset >= zip::kLarge) content.u64(header_offset);
  if (content.bytes().empty()) return {};
  return Fields().u16(zip::kZip64Extra).u16(content.bytes().size()).text(content.bytes()).bytes();
}

std::uint16_t flags_of(std::uint64_t size) {
  return size == 0 ? zip::kUtf8 : zip::kUtf8 | zip::kHasDescriptor;
}

}  // namespace

void ZipWriter::put(std::string_view bytes) {
  sink_(as_bytes(bytes));
  written_ += bytes.size();
}

void ZipWriter::begin(std::string_view record, std::uint64_t size) {
  if (missing_ > 0)
    fail(Exit::internal, entries_.back().name, ": ", missing_, " bytes are missing");
  const Entry entry = {root_ + "/" + std::string(record), written_, size};
  const std::string zip64 = zip64_extra(entry.size, 0, entry.header_offset);
  const std::uint64_t fixed = zip::kLocalHeaderSize + entry.name.size() + zip64.size() + 4;
  const std::uint64_t padding = -(written_ + fixed) % zip::kAlignment;
  Fields header;
  header.u32(zip::kLocalHeader).u16(0).u16(flags_of(entry.size)).u16(zip::kStored).u32(0);
  header.u32(0).u32(0).u32(0).u16(entry.name.size()).u16(zip64.size() + 4 + padding);
  header.text(entry.name).text(zip64).text("FB").u16(padding).text(std::string(padding, 'Z'));
  put(header.bytes());
  entries_.push_back(entry);
  missing_ = size;
}

void ZipWriter::append(Bytes piece) {
  if (piece.empty()) return;
  constexpr std::size_t kBlock = 1 << 20;  // stays in a cache between who sums up and who writes
  Entry& entry = entries_.back();
  if (piece.size() > missing_)
    fail(Exit::internal, entry.name, ": ", piece.size(), " bytes, expected ", missing_);
  written_ += piece.size();
  missing_ -= piece.size();
  for (; !piece.empty(); piece = piece.subspan(std::min(kBlock, piece.size()))) {
    const Bytes block = piece.first(std::min(kBlock, piece.size()));
    entry.crc = static_cast<std::uint32_t>(
        ::crc32_z(entry.crc, reinterpret_cast<const Bytef*>(block.data()), block.size()));
    sink_(block);
  }
  if (missing_ == 0) end_record();
}

void ZipWriter::end_record() {
  const Entry& entry = entries_.back();
  Fields descriptor;
  descriptor.u32(zip::kDescriptor).u32(entry.crc);
  if (zip64_extra(entry.size, 0, entry.header_offset).empty())
    descriptor.u32(entry.size).u32(entry.size);
  else
    descriptor.u64(entry.size).u64(entry.size);
  put(descriptor.bytes());
}

void ZipWriter::add(std::string_view record, Bytes payload) {
  begin(record, payload.size());
  append(payload);
}

void ZipWriter::finish() {
  const std::uint64_t begin = written_, count = entries_.size();
  for (const Entry& entry : entries_) {
    const std::string zip64 = zip64_extra(entry.size, entry.size, entry.header_offset);
    Fields central;
    central.u32(zip::kCentralEntry).u16(0).u16(0).u16(flags_of(entry.size)).u16(zip::kStored);
    central.u32(0).u32(entry.crc).u32(clipped(entry.size)).u32(clipped(entry.size));
    central.u16(entry.name.size()).u16(zip64.size()).u16(0).u16(0).u16(0).u32(0);
    central.u32(clipped(entry.header_offset)).text(entry.name).text(zip64);
    put(central.bytes());
  }
  const std::uint64_t end = written_, size = end - begin;
  Fields tail;
  tail.u32(zip::kEnd64).u64(zip::kEnd64Size - 12).u16(0x031E).u16(0x002D).u32(0).u32(0);
  tail.u64(count).u64(count).u64(size).u64(begin);
  tail.u32(zip::kLocator64).u32(0).u64(end).u32(1);
  const std::uint64_t short_count = std::min<std::uint64_t>(count, 0xFFFF);
  tail.u32(zip::kEnd).u16(0).u16(0).u16(short_count).u16(short_count);
  tail.u32(clipped(size)).u32(clipped(begin)).u16(0);
  put(tail.bytes());
}

}  // namespace mt
