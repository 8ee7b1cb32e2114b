#include "data/samples/index_cache.h"

#include <cassert>
#include <cstring>
#include <filesystem>

#include "base/error.h"
#include "base/folder.h"
#include "base/hash.h"
#include "base/memory.h"

namespace mt {
namespace {

constexpr char kMagic[8] = {'M', 'T', 'I', 'N', 'D', 'E', 'X', '1'};
constexpr std::size_t kHeaderBytes = 16, kAlignment = 64, kHashBytes = 32;

std::size_t aligned(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

// Where the arrays of a file stand: their first bytes, then the end of the last.
std::vector<std::size_t> places(const IndexContent& content) {
  std::vector<std::size_t> result;
  std::size_t at = kHeaderBytes + content.text.size();
  for (const ArrayShape& array : content.arrays) {
    result.push_back(aligned(at));
    at = result.back() + static_cast<std::size_t>(array.count) * array.element_bytes;
  }
  result.push_back(at);
  return result;
}

std::vector<Bytes> arrays_in(Bytes file, const IndexContent& content) {
  std::vector<Bytes> arrays;
  const std::vector<std::size_t> at = places(content);
  for (std::size_t i = 0; i < content.arrays.size(); ++i)
    arrays.push_back(file.subspan(at[i], static_cast<std::size_t>(content.arrays[i].count) *
                                             content.arrays[i].element_bytes));
  return arrays;
}

// Counts what is written, so that each array begins where places() says.
class PlacingWriter : public IndexWriter {
 public:
  PlacingWriter(const IndexContent& content, const IndexCache::Report& report)
      : places_(places(content)), report_(report) {}

  void write(Bytes bytes) final {
    place(bytes);
    report_(bytes.size());
  }
  void next_array() final {
    static constexpr std::byte kZeros[kAlignment] = {};
    assert(at_ <= places_[array_]);
    place(Bytes(kZeros).first(places_[array_] - at_));
    ++array_;
  }
  // What is no array's.
  void place(Bytes bytes) {
    assert(bytes.size() <= places_.back() - at_);
    append(bytes);
    at_ += bytes.size();
  }
  bool complete() const { return at_ == places_.back() && array_ + 1 == places_.size(); }

 protected:
  virtual void append(Bytes bytes) = 0;

 private:
  std::vector<std::size_t> places_;
  const IndexCache::Report& report_;
  std::size_t array_ = 0, at_ = 0;
};

class MemoryWriter : public PlacingWriter {
 public:
  MemoryWriter(const IndexContent& content, const IndexCache::Report& report, std::byte* memory)
      : PlacingWriter(content, report), to_(memory) {}

 private:
  void append(Bytes bytes) override {
    if (bytes.empty()) return;
    std::memcpy(to_, bytes.data(), bytes.size());
    to_ += bytes.size();
  }
  std::byte* to_;
};

class FileWriter : public PlacingWriter {
 public:
  FileWriter(const IndexContent& content, const IndexCache::Report& report, const std::string& path)
      : PlacingWriter(content, report), file_(path, true) {}

  std::string commit() {  // the hash of all but itself
    flush();
    std::string hash = hasher_.hex();
    file_.write(hash);
    file_.commit();
    return hash;
  }

 private:
  static constexpr std::size_t kBlock = 1 << 20;
  void append(Bytes bytes) override {
    block_.insert(block_.end(), bytes.begin(), bytes.end());
    if (block_.size() >= kBlock) flush();
  }
  void flush() {
    file_.write(block_);
    hasher_.update(block_);
    block_.clear();
  }

  AtomicFile file_;
  Hasher hasher_;
  std::vector<std::byte> block_;
};

// Header and arrays, from the first byte.
void write_all(PlacingWriter& writer, const IndexContent& content) {
  const std::uint64_t text_size = content.text.size();
  writer.place(as_bytes({kMagic, sizeof kMagic}));
  writer.place(std::as_bytes(std::span(&text_size, 1)));
  writer.place(as_bytes(content.text));
  writer.next_array();
  content.make(writer);
  assert(writer.complete());
}

// Null if the file is whole, else what is wrong with it.
const char* damage(const MappedFile& mapped, const KnownFiles& known) {
  const Bytes file = mapped.bytes();
  if (file.size() < kHeaderBytes + kHashBytes || std::memcmp(file.data(), kMagic, sizeof kMagic))
    return "not an index";
  std::uint64_t text = 0;
  std::memcpy(&text, file.data() + sizeof kMagic, sizeof text);
  if (text > file.size() - kHeaderBytes - kHashBytes) return "cut short";
  const std::string hash = known.hash(
      mapped.path(), [&] { return hash_once(mapped, file.first(file.size() - kHashBytes)); });
  return hash == as_text(file.last(kHashBytes)) ? nullptr : "not as it was written";
}

std::string_view text_of(Bytes file) {
  std::uint64_t size = 0;
  std::memcpy(&size, file.data() + sizeof kMagic, sizeof size);
  return as_text(file.subspan(kHeaderBytes, size));
}

}  // namespace

std::string IndexCache::path(const std::string& text) const {
  return folder_ + "/" + hash_hex(as_bytes(text)) + ".index";
}

IndexArrays IndexCache::get(const IndexContent& content) const {
  if (!kept()) return make_in_memory(content);
  if (auto arrays = load(content)) {
    for (const Bytes array : arrays->arrays_) report_(array.size());
    return std::move(*arrays);
  }
  store(content);
  auto arrays = load(content);
  if (!arrays) fail(Exit::io_error, path(content.text), ": damaged again after it was written");
  arrays->made_ = true;
  return std::move(*arrays);
}

std::optional<IndexArrays> IndexCache::load(const IndexContent& content) const {
  const std::string name = path(content.text);
  if (!std::filesystem::exists(name)) return std::nullopt;
  IndexArrays arrays;
  arrays.file_ = std::make_unique<MappedFile>(name);
  const Bytes file = arrays.file_->bytes();
  if (const char* what = damage(*arrays.file_, known_)) {
    log_.warn(concat(name, ": ", what, "; it is made again"));
    return std::nullopt;
  }
  if (text_of(file) != content.text || file.size() != places(content).back() + kHashBytes)
    fail(Exit::bad_config, name, ": is the index of other data: ", text_of(file).substr(0, 200),
         "; expected ", content.text.substr(0, 200));
  arrays.arrays_ = arrays_in(file, content);
  return arrays;
}

void IndexCache::store(const IndexContent& content) const {
  make_folder(folder_);
  FileWriter writer(content, report_, path(content.text));
  write_all(writer, content);
  known_.keep(path(content.text), writer.commit());
}

IndexCache IndexCache::reporting(Report report) const {
  IndexCache cache = *this;
  cache.report_ = std::move(report);
  return cache;
}

IndexArrays IndexCache::make_in_memory(const IndexContent& content) const {
  const std::size_t size = places(content).back();
  expect_memory(size, "an index of samples that no --data-cache-path keeps");
  IndexArrays arrays;
  arrays.memory_.reset(new std::byte[size]);
  MemoryWriter writer(content, report_, arrays.memory_.get());
  write_all(writer, content);
  arrays.arrays_ = arrays_in({arrays.memory_.get(), size}, content);
  arrays.made_ = true;
  return arrays;
}

}  // namespace mt
