#include <zlib.h>

#include <algorithm>
#include <memory>

#include "base/error.h"
#include "base/lfs_pointer.h"
#include "ckpt/zip.h"
#include "ckpt/zip_format.h"

namespace mt {

constexpr std::uint64_t kMaxComment = 0xFFFF;
constexpr std::uint64_t kEntryBytes = 320;  // of memory, for what is known of one beside its name

static std::uint64_t little(Bytes bytes, std::uint64_t at, int count) {
  std::uint64_t number = 0;
  for (int i = count; i-- > 0;)
    number = number << 8 | static_cast<std::uint8_t>(bytes[at + static_cast<std::uint64_t>(i)]);
  return number;
}
static std::uint16_t u16(Bytes bytes, std::uint64_t at) {
  return static_cast<std::uint16_t>(little(bytes, at, 2));
}
static std::uint64_t u32(Bytes bytes, std::uint64_t at) { return little(bytes, at, 4); }
static std::uint64_t u64(Bytes bytes, std::uint64_t at) { return little(bytes, at, 8); }

ZipReader::ZipReader(Bytes archive, std::string name)
    : ZipReader(archive, std::move(name), *std::make_unique<Allowance>(archive.size())) {}

ZipReader::ZipReader(Bytes archive, std::string name, Allowance& allowance)
    : archive_(archive), name_(std::move(name)) {
  const Directory directory = find_directory();
  std::uint64_t at = directory.offset;
  for (std::uint64_t i = 0; i < directory.entries; ++i)
    read_entry(at, directory.offset + directory.size, allowance);
  if (at != directory.offset + directory.size)
    fail(Exit::bad_data, name_, ": byte ", at, ": ", directory.offset + directory.size - at,
         " bytes after the last entry of the zip directory");
  if (order_.empty()) fail(Exit::bad_data, name_, ": an empty zip archive");
  check_no_overlap();
}

void ZipReader::check_no_overlap() {
  std::sort(places_.begin(), places_.end());
  for (std::size_t i = 1; i < places_.size(); ++i)
    if (places_[i].first < places_[i - 1].second)
      fail(Exit::bad_data, name_, ": byte ", places_[i].first, ": two records overlap");
}

std::vector<std::string> ZipReader::records() const { return order_; }

const Bytes* ZipReader::find(std::string_view record) const {
  const auto found = records_.find(record);
  return found == records_.end() ? nullptr : &found->second;
}

Bytes ZipReader::at(std::string_view record) const {
  const Bytes* const found = find(record);
  if (found == nullptr) fail(Exit::bad_data, name_, ": the archive has no record ", record);
  return *found;
}

// From the last end record whose comment reaches exactly to the end, and the zip64 one before it.
ZipReader::Directory ZipReader::find_directory() const {
  const std::uint64_t size = archive_.size();
  refuse_lfs_pointer(as_text(archive_), name_);
  if (size < zip::kEndSize)
    fail(Exit::bad_data, name_, ": ", size, " bytes, too few for a zip archive");
  const std::uint64_t lowest = size - zip::kEndSize - std::min(size - zip::kEndSize, kMaxComment);
  std::uint64_t end = size - zip::kEndSize;
  while (u32(archive_, end) != zip::kEnd || end + zip::kEndSize + u16(archive_, end + 20) != size)
    if (end-- == lowest) fail(Exit::bad_data, name_, ": no zip directory at the end: cut off?");
  Directory found = {u32(archive_, end + 16), u32(archive_, end + 12), u16(archive_, end + 10)};
  std::uint64_t limit = end;
  if (end >= zip::kLocator64Size + zip::kEnd64Size &&
      u32(archive_, end - zip::kLocator64Size) == zip::kLocator64) {
    const std::uint64_t at = u64(archive_, end - zip::kLocator64Size + 8);
    if (at > end - zip::kLocator64Size - zip::kEnd64Size || u32(archive_, at) != zip::kEnd64)
      fail(Exit::bad_data, name_, ": no zip64 end record at byte ", at);
    found = {u64(archive_, at + 48), u64(archive_, at + 40), u64(archive_, at + 32)};
    limit = at;
  }
  if (found.offset > limit || found.size > limit - found.offset)
    fail(Exit::bad_data, name_, ": a zip directory of ", found.size, " bytes at byte ",
         found.offset, ", expected it before byte ", limit);
  if (found.entries > found.size / zip::kCentralEntrySize)
    fail(Exit::bad_data, name_, ": ", found.entries, " entries in a zip directory of ", found.size,
         " bytes");
  return found;
}

// Sizes and offset of a central entry, with the zip64 extra field in place of 0xFFFFFFFF.
static void apply_zip64(Bytes extra, std::uint64_t& size, std::uint64_t& packed,
                        std::uint64_t& offset) {
  while (extra.size() >= 4) {
    const std::uint64_t id = u16(extra, 0);
    const std::uint64_t length = std::min<std::uint64_t>(u16(extra, 2), extra.size() - 4);
    Bytes content = extra.subspan(4, length);
    extra = extra.subspan(4 + length);
    if (id != zip::kZip64Extra) continue;
    for (std::uint64_t* const field : {&size, &packed, &offset}) {
      if (*field != zip::kLarge || content.size() < 8) continue;
      *field = u64(content, 0);
      content = content.subspan(8);
    }
  }
}

void ZipReader::read_entry(std::uint64_t& at, std::uint64_t end, Allowance& allowance) {
  const std::uint64_t entry = at;
  const auto bad = [&](const auto&... parts) {
    fail(Exit::bad_data, name_, ": zip entry at byte ", entry, ": ", parts...);
  };
  if (end - at < zip::kCentralEntrySize || u32(archive_, at) != zip::kCentralEntry)
    bad("not found");
  const std::uint16_t flags = u16(archive_, at + 8), method = u16(archive_, at + 10);
  std::uint64_t packed = u32(archive_, at + 20), size = u32(archive_, at + 24);
  std::uint64_t offset = u32(archive_, at + 42);
  const std::uint64_t name_length = u16(archive_, at + 28), extra_length = u16(archive_, at + 30);
  const std::uint64_t length =
      zip::kCentralEntrySize + name_length + extra_length + u16(archive_, at + 32);
  if (length > end - at) bad("longer than the directory");
  const std::string name(as_text(archive_.subspan(at + zip::kCentralEntrySize, name_length)));
  apply_zip64(archive_.subspan(at + zip::kCentralEntrySize + name_length, extra_length), size,
              packed, offset);
  at += length;

  if (flags & zip::kEncrypted) bad("encrypted");
  if (offset > entry || entry - offset < zip::kLocalHeaderSize ||
      u32(archive_, offset) != zip::kLocalHeader)
    bad("no local header at byte ", offset);
  const std::uint64_t payload =
      offset + zip::kLocalHeaderSize + u16(archive_, offset + 26) + u16(archive_, offset + 28);
  if (payload > entry || packed > entry - payload)
    bad(packed, " bytes of data at byte ", payload, ", expected them before the directory");
  if (u16(archive_, offset + 26) != name_length ||
      as_text(archive_.subspan(offset + zip::kLocalHeaderSize, name_length)) != name)
    bad("its local header has another name");

  const std::size_t slash = name.find('/');
  if (slash == std::string::npos || slash == 0) bad("a name without a folder");
  if (order_.empty()) root_ = name.substr(0, slash);
  if (name.substr(0, slash) != root_) bad("not in the folder of the first entry");
  allowance.take(kEntryBytes + 6 * name.size(), name_);
  const std::string record = name.substr(slash + 1);
  if (records_.contains(record)) bad("a second entry of this name");
  const Bytes data = archive_.subspan(payload, packed);
  if (method == zip::kStored) {
    if (size != packed) bad("stored, but its two sizes differ: ", size, " and ", packed);
    records_[record] = data;
  } else {
    if (method != zip::kDeflated) bad("compression method ", method, ", expected 0 or 8");
    allowance.take(size, name_);
    std::string& content = inflated_[record];
    inflate(data, size, record, content);
    records_[record] = as_bytes(content);
  }
  order_.push_back(record);
  places_.emplace_back(offset, payload + packed);
}

void ZipReader::inflate(Bytes packed, std::uint64_t size, std::string_view record,
                        std::string& out) {
  out.reserve(size);
  z_stream stream = {};
  if (::inflateInit2(&stream, -MAX_WBITS) != Z_OK) fail(Exit::out_of_memory, name_, ": zlib");
  std::string block(1 << 16, '\0');
  int status = Z_OK;
  while (status == Z_OK) {
    const std::size_t step = std::min<std::size_t>(packed.size(), 1u << 30);
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(packed.data()));
    stream.avail_in = static_cast<uInt>(step);
    stream.next_out = reinterpret_cast<Bytef*>(block.data());
    stream.avail_out = static_cast<uInt>(block.size());
    status = ::inflate(&stream, Z_NO_FLUSH);
    packed = packed.subspan(step - stream.avail_in);
    out.append(block, 0, block.size() - stream.avail_out);
    if (out.size() > size) break;
  }
  ::inflateEnd(&stream);
  if (status != Z_STREAM_END || out.size() != size || !packed.empty())
    fail(Exit::bad_data, name_, ": record ", record, ": damaged compressed data");
}

}  // namespace mt
