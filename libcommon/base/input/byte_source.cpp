#include "base/input/byte_source.h"

#include <bzlib.h>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/parquet/lines.h"

namespace mt {

// Unpacks one kind of packed data, piece by piece.
class ByteSource::Decoder {
 public:
  virtual ~Decoder() = default;
  struct Step {
    std::size_t written = 0;       // into `out`
    const char* damage = nullptr;  // what is wrong with the data, in the library's words
    bool too_large = false;        // unpacking takes more memory than there is
  };
  virtual Step step(Bytes& in, std::span<char> out) = 0;  // takes bytes from the front of `in`
  virtual const char* unit() const = 0;                   // what the data is made of
  bool inside() const { return inside_; }                 // a unit has begun and not ended

 protected:
  bool inside_ = false;
};

namespace {

constexpr std::size_t kBufferBytes = 256 << 10;

class GzipDecoder : public ByteSource::Decoder {
 public:
  GzipDecoder() {
    if (inflateInit2(&stream_, 15 + 16) != Z_OK) throw std::bad_alloc();
  }
  ~GzipDecoder() override { inflateEnd(&stream_); }
  const char* unit() const override { return "gzip member"; }

  Step step(Bytes& in, std::span<char> out) override {
    if (!inside_ && !begin_member(in)) return {};
    // zlib declares its input non-const but only reads it.
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(in.data()));
    stream_.avail_in = static_cast<uInt>(in.size());
    stream_.next_out = reinterpret_cast<Bytef*>(out.data());
    stream_.avail_out = static_cast<uInt>(std::min<std::size_t>(out.size(), 1 << 30));
    const uInt room = stream_.avail_out;
    const int result = inflate(&stream_, Z_NO_FLUSH);
    in = in.last(stream_.avail_in);
    if (result == Z_MEM_ERROR) throw std::bad_alloc();
    if (result == Z_NEED_DICT) return {.damage = "a dictionary is needed"};
    if (result < 0 && result != Z_BUF_ERROR)
      return {.damage = stream_.msg != nullptr ? stream_.msg : "unknown error"};
    if (result == Z_STREAM_END) inside_ = false;
    return {.written = room - stream_.avail_out};
  }

 private:
  // Zero bytes may follow a member: tapes and some archivers fill blocks with them.
  bool begin_member(Bytes& in) {
    if (begun_)
      in = in.subspan(static_cast<std::size_t>(
          std::find_if(in.begin(), in.end(), [](std::byte b) { return b != std::byte{0}; }) -
          in.begin()));
    if (in.empty()) return false;
    if (begun_) inflateReset(&stream_);
    begun_ = inside_ = true;
    return true;
  }

  z_stream stream_ = {};
  bool begun_ = false;
};

class Bzip2Decoder : public ByteSource::Decoder {
 public:
  ~Bzip2Decoder() override {
    if (inside_) BZ2_bzDecompressEnd(&stream_);
  }
  const char* unit() const override { return "bzip2 stream"; }

  Step step(Bytes& in, std::span<char> out) override {
    if (!inside_) {
      if (in.empty()) return {};
      stream_ = {};
      if (BZ2_bzDecompressInit(&stream_, 0, 0) != BZ_OK) throw std::bad_alloc();
      inside_ = true;
    }
    // The library declares its input non-const but only reads it.
    stream_.next_in = reinterpret_cast<char*>(const_cast<std::byte*>(in.data()));
    stream_.avail_in = static_cast<unsigned>(in.size());
    stream_.next_out = out.data();
    stream_.avail_out = static_cast<unsigned>(std::min<std::size_t>(out.size(), 1 << 30));
    const unsigned room = stream_.avail_out;
    const int result = BZ2_bzDecompress(&stream_);
    in = in.last(stream_.avail_in);
    const std::size_t written = room - stream_.avail_out;
    if (result == BZ_MEM_ERROR) throw std::bad_alloc();
    if (result == BZ_DATA_ERROR_MAGIC) return {.damage = "it does not begin as one"};
    if (result < 0) return {.damage = "its data are not what they were"};
    if (result == BZ_STREAM_END) {
      BZ2_bzDecompressEnd(&stream_);
      inside_ = false;
    }
    return {.written = written};
  }

 private:
  bz_stream stream_ = {};
};

class ZstdDecoder : public ByteSource::Decoder {
 public:
  ZstdDecoder() : context_(ZSTD_createDCtx()) {
    if (context_ == nullptr) throw std::bad_alloc();
    // The longest windows too, as zstd --long writes them: memory is taken only as they fill.
    ZSTD_DCtx_setParameter(context_, ZSTD_d_windowLogMax, kLongestWindow);
  }
  ~ZstdDecoder() override { ZSTD_freeDCtx(context_); }
  const char* unit() const override { return "zstd frame"; }

  Step step(Bytes& in, std::span<char> out) override {
    ZSTD_inBuffer from = {in.data(), in.size(), 0};
    ZSTD_outBuffer into = {out.data(), out.size(), 0};
    const std::size_t result = ZSTD_decompressStream(context_, &into, &from);
    const ZSTD_ErrorCode error = ZSTD_getErrorCode(result);
    if (error == ZSTD_error_memory_allocation || error == ZSTD_error_frameParameter_windowTooLarge)
      return {.too_large = true};
    if (error != ZSTD_error_no_error) return {.damage = ZSTD_getErrorName(result)};
    if (result == 0)
      inside_ = false;
    else if (from.pos > 0)
      inside_ = true;
    in = in.subspan(from.pos);
    return {.written = into.pos};
  }

 private:
  static constexpr int kLongestWindow = sizeof(std::size_t) == 4 ? 30 : 31;
  ZSTD_DCtx* context_;
};

bool starts_with(Bytes bytes, std::initializer_list<int> magic) {
  return bytes.size() >= magic.size() &&
         std::equal(magic.begin(), magic.end(), bytes.begin(),
                    [](int want, std::byte have) { return want == std::to_integer<int>(have); });
}

// A block's first bytes follow the size of blocks; a file of none ends there.
bool is_bzip2(Bytes start) {
  if (!starts_with(start, {'B', 'Z', 'h'}) || start.size() < 10) return false;
  const Bytes behind = start.subspan(4);
  return starts_with(behind, {0x31, 0x41, 0x59, 0x26, 0x53, 0x59}) ||
         starts_with(behind, {0x17, 0x72, 0x45, 0x38, 0x50, 0x90});
}

std::unique_ptr<ByteSource::Decoder> decoder_for(Bytes start) {
  if (starts_with(start, {0x1F, 0x8B})) return std::make_unique<GzipDecoder>();
  if (is_bzip2(start)) return std::make_unique<Bzip2Decoder>();
  const bool skippable = start.size() >= 4 && (start[0] & std::byte{0xF0}) == std::byte{0x50} &&
                         starts_with(start.subspan(1), {0x2A, 0x4D, 0x18});
  if (skippable || starts_with(start, {0x28, 0xB5, 0x2F, 0xFD}))
    return std::make_unique<ZstdDecoder>();
  return nullptr;
}

// A first page follows, or the footer of a file of no rows, whose first field is a number, too.
bool is_parquet(Bytes start) { return starts_with(start, {'P', 'A', 'R', '1', 0x15}); }

// What has packed these bytes, of the packers that are not known here; null: none.
const char* unknown_packer(Bytes start) {
  if (starts_with(start, {0xFD, '7', 'z', 'X', 'Z', 0})) return "xz";
  if (starts_with(start, {0x04, 0x22, 0x4D, 0x18})) return "lz4";
  if (starts_with(start, {'P', 'K', 3, 4})) return "zip";
  // A file of Arrow's, and a stream, which a data set that datasets has saved is.
  if (starts_with(start, {'A', 'R', 'R', 'O', 'W', '1', 0})) return "Arrow";
  if (starts_with(start, {0xFF, 0xFF, 0xFF, 0xFF})) return "Arrow";
  if (starts_with(start, {'7', 'z', 0xBC, 0xAF})) return "7z";
  return nullptr;
}

// Without waiting for somebody to write to a named pipe: read_stored() does that, by poll(), so
// that the wait can be ended.
File open_now(const std::string& path) {
  File file = File::open(path, O_NONBLOCK);
  if (path == "-") return file;  // shared with our parent: its flags are not ours to change
  const int flags = ::fcntl(file.descriptor(), F_GETFL);
  if (flags < 0 || ::fcntl(file.descriptor(), F_SETFL, flags & ~O_NONBLOCK) < 0)
    fail_errno(path, "cannot open", Exit::io_error);
  return file;
}

constexpr std::size_t kMostOfMagic = 10;  // bytes by which packed data are told

// Whether packed data may begin with these bytes, which may be too few to tell.
bool may_be_packed(Bytes start) {
  const auto fits = [](Bytes bytes, std::initializer_list<int> magic) {
    return std::equal(bytes.begin(), bytes.begin() + std::min(std::ssize(bytes), std::ssize(magic)),
                      magic.begin(),
                      [](std::byte have, int want) { return want == std::to_integer<int>(have); });
  };
  if (start.empty() || (start.size() < 2 && fits(start, {0x1F, 0x8B})) ||
      (start.size() < 4 && fits(start, {0x28, 0xB5, 0x2F, 0xFD})) || fits(start, {'B', 'Z', 'h'}))
    return true;
  if (start.size() >= 4) return false;
  return (start[0] & std::byte{0xF0}) == std::byte{0x50} &&
         fits(start.subspan(1), {0x2A, 0x4D, 0x18});
}

}  // namespace

ByteSource::ByteSource(const std::string& path, std::function<void()> while_waiting,
                       std::uint64_t offset, bool takes_rows)
    : file_(open_now(path)),
      while_waiting_(std::move(while_waiting)),
      may_wait_(!file_.is_regular()),
      buffer_(kBufferBytes) {
  if (offset > 0) {
    if (::lseek(file_.descriptor(), static_cast<off_t>(offset), SEEK_SET) < 0)
      fail_errno(path, "cannot be read from its middle", Exit::io_error);
    return;
  }
  std::size_t size = 0;  // a pipe may give the first bytes one by one
  while (size < kMostOfMagic && !at_end_ && may_be_packed(Bytes(buffer_).first(size))) {
    const std::size_t count = read_stored(std::span(buffer_).subspan(size));
    at_end_ = count == 0;
    size += count;
  }
  stored_ = Bytes(buffer_).first(size);
  if (is_parquet(stored_)) {
    if (!takes_rows)
      fail(Exit::bad_data, name(), ": is a Parquet file, whose rows are lines of JSON; expected ",
           "plain text, or text packed by gzip, bzip2 or zstd");
    if (may_wait_)
      fail(Exit::bad_data, name(), ": is a Parquet file in a pipe, expected the file itself, ",
           "which is read from its end");
    rows_ = std::make_unique<ParquetLines>(path == "-" ? "/dev/stdin" : path, name());
    return;
  }
  decoder_ = decoder_for(stored_);
  if (const char* const packer = unknown_packer(stored_))
    fail(Exit::bad_data, name(), ": is packed by ", packer,
         takes_rows ? ", expected plain, gzip, bzip2, zstd or Parquet; unpack it in a pipe"
                    : ", expected plain, gzip, bzip2 or zstd; unpack it in a pipe");
}

ByteSource::~ByteSource() = default;

std::size_t ByteSource::read_stored(std::span<std::byte> into) {
  while (may_wait_) {
    pollfd ready = {file_.descriptor(), POLLIN, 0};
    if (::poll(&ready, 1, 200) > 0) break;
    while_waiting_();
  }
  const std::size_t count = file_.read(into);
  hash_.update(Bytes(into.first(count)));
  stored_bytes_ += static_cast<std::int64_t>(count);
  return count;
}

bool ByteSource::ready() const {
  pollfd input = {file_.descriptor(), POLLIN, 0};
  return !may_wait_ || at_end_ || !stored_.empty() || ::poll(&input, 1, 0) > 0;
}

void ByteSource::refill() {
  const std::size_t count = read_stored(buffer_);
  at_end_ = count == 0;
  stored_ = Bytes(buffer_).first(count);
}

std::size_t ByteSource::read_rows(std::span<char> into) {
  const std::size_t count = rows_->read(into);
  stored_bytes_ = rows_->stored_bytes();
  if (count == 0 && !std::exchange(at_end_, true))
    hash_.update(rows_->stored().subspan(stored_.size()));  // these were read to tell what it is
  return count;
}

std::size_t ByteSource::read(std::span<char> into) {
  if (into.empty()) return 0;
  if (rows_) return read_rows(into);
  if (!decoder_) {
    if (stored_.empty()) return at_end_ ? 0 : read_stored(std::as_writable_bytes(into));
    const std::size_t count = std::min(stored_.size(), into.size());
    std::memcpy(into.data(), stored_.data(), count);
    stored_ = stored_.subspan(count);
    return count;
  }
  for (;;) {
    const std::int64_t at = stored_bytes_ - static_cast<std::int64_t>(stored_.size());
    const Decoder::Step step = decoder_->step(stored_, into);
    if (step.damage != nullptr)
      fail(Exit::bad_data, name(), ": damaged ", decoder_->unit(), " at or after byte ", at, ": ",
           step.damage);
    if (step.too_large)
      fail(Exit::out_of_memory, name(), ": a ", decoder_->unit(),
           " asks for a longer window than there is memory for; unpack it where there is more: ",
           "zstd -dc --long=31");
    if (step.written > 0) return step.written;
    if (!stored_.empty()) continue;
    if (!at_end_) refill();
    if (!at_end_) continue;
    if (decoder_->inside())
      fail(Exit::bad_data, name(), ": ends at byte ", stored_bytes_, ", inside a ",
           decoder_->unit());
    return 0;
  }
}

}  // namespace mt
