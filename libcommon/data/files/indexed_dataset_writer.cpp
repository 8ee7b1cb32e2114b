#include "data/files/indexed_dataset_writer.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <limits>
#include <numeric>

#include "base/error.h"
#include "data/files/manifest.h"

namespace mt {
namespace {

// Bytes of .bin that are written together: what crosses no bound between such parts costs the
// system half as much.
constexpr std::size_t kPartBytes = 256 << 10;
constexpr std::size_t kDirtyBytes = 4 << 20;  // written back before the file is complete
constexpr std::uint64_t kLeastReserved = 1 << 20, kMostReserved = 64 << 20;  // of .bin
constexpr const char* kParts[] = {".lengths", ".documents", ".modes"};       // of an index

template <class T>
Bytes as_bytes_of(const T& value) {
  return std::as_bytes(std::span<const T, 1>(&value, 1));
}

// While it lives no other process that has one of the same folder goes on: so that of two datasets
// of one name one is whole.  Where a folder cannot be locked, it does nothing.
class FolderLock {
 public:
  explicit FolderLock(const std::string& path)
      : folder_(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC), path) {
    while (::flock(folder_.descriptor(), LOCK_EX) != 0 && errno == EINTR) {
    }
  }

 private:
  File folder_;
};

// Says whether it was there.
bool remove_if_there(const std::string& path) {
  const bool removed = ::unlink(path.c_str()) == 0;
  if (!removed && errno != ENOENT) fail_errno(path, "cannot remove", Exit::cannot_create);
  return removed;
}

}  // namespace

IndexedDatasetWriter::IndexedDatasetWriter(const std::string& prefix, TokenType type,
                                           const Options& options)
    : prefix_(prefix),
      type_(type),
      options_(options),
      bin_(bin_path(prefix), options.overwrite, options.resumable),
      idx_(idx_path(prefix), options.overwrite, options.resumable),
      lengths_(idx_path(prefix) + kParts[0], options.resumable),
      begins_(idx_path(prefix) + kParts[1], options.resumable),
      modes_(idx_path(prefix) + kParts[2], options.resumable) {
  if (!options.overwrite && std::filesystem::exists(manifest_path(prefix)))
    fail(Exit::cannot_create, manifest_path(prefix), ": exists already; --force overwrites it");
  buffer_.reserve(kPartBytes);
}

void IndexedDatasetWriter::write_bin(Bytes bytes) {
  bin_hash_.update(bytes);
  if (bin_bytes_ + bytes.size() > reserved_) reserve_bin();
  bin_.write(bytes);
  bin_bytes_ += bytes.size();
  dirty_ += bytes.size();
  if (dirty_ < kDirtyBytes) return;
  bin_.write_back();
  dirty_ = 0;
}

// Behind the bytes that are there room for as many more.
void IndexedDatasetWriter::reserve_bin() {
  if (bin_bytes_ < kLeastReserved) return;
  const std::uint64_t more = std::min(bin_bytes_, kMostReserved);
  const bool given = bin_.reserve(bin_bytes_, more);  // else nothing is asked for again
  reserved_ = given ? bin_bytes_ + more : std::numeric_limits<std::uint64_t>::max();
}

void IndexedDatasetWriter::add_bytes(Bytes bytes) {
  const auto keep = [&](Bytes some) { buffer_.insert(buffer_.end(), some.begin(), some.end()); };
  const std::size_t room = kPartBytes - (bin_bytes_ + buffer_.size()) % kPartBytes;
  if (bytes.size() < room) return keep(bytes);
  keep(bytes.first(room));
  flush_bin();
  bytes = bytes.subspan(room);
  const std::size_t rest = bytes.size() % kPartBytes;
  write_bin(bytes.first(bytes.size() - rest));
  keep(bytes.last(rest));
}

void IndexedDatasetWriter::flush_bin() {
  write_bin(Bytes(buffer_));
  buffer_.clear();
}

void IndexedDatasetWriter::end_document() {
  begins_.write(as_bytes_of(state_.sequences));
  ++state_.documents;
}

void IndexedDatasetWriter::add_document(std::span<const std::int32_t> tokens,
                                        std::span<const std::int32_t> lengths,
                                        std::span<const std::int8_t> modes) {
  std::int64_t sum = 0;
  for (const std::int32_t length : lengths) sum += length;
  if (sum != static_cast<std::int64_t>(tokens.size()))
    fail(Exit::internal, prefix_, ": document ", state_.documents, ": lengths sum to ", sum,
         ", not ", tokens.size());
  assert(modes.size() == (options_.multimodal ? lengths.size() : 0));
  constexpr std::size_t kStep = kPartBytes / sizeof(std::int64_t);  // tokens converted at a time
  for (auto rest = tokens; !rest.empty(); rest = rest.subspan(std::min(kStep, rest.size()))) {
    stored_.clear();
    if (const auto token = stored_.append(type_, rest.first(std::min(kStep, rest.size()))))
      fail(Exit::bad_data, bin_.path(), ": token ", *token, " of document ", state_.documents,
           " does not fit ", name_of(type_));
    add_bytes(stored_.bytes());
  }
  lengths_.write(std::as_bytes(lengths));
  modes_.write(std::as_bytes(modes));
  state_.sequences += static_cast<std::int64_t>(lengths.size());
  state_.tokens += sum;
  end_document();
}

void IndexedDatasetWriter::add_documents(Bytes tokens, std::span<const std::int32_t> lengths,
                                         std::span<const std::size_t> documents) {
  const auto sum = std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
  if (static_cast<std::size_t>(sum) * size_of(type_) != tokens.size() ||
      std::accumulate(documents.begin(), documents.end(), std::size_t{0}) != lengths.size())
    fail(Exit::internal, prefix_, ": ", documents.size(), " documents from ", state_.documents,
         ": their ", lengths.size(), " lengths do not fit ", tokens.size(), " bytes");
  assert(!options_.multimodal);
  add_bytes(tokens);
  lengths_.write(std::as_bytes(lengths));
  state_.tokens += sum;
  std::vector<std::int64_t> begins;
  for (const std::size_t sequences : documents)
    begins.push_back(state_.sequences += static_cast<std::int64_t>(sequences));
  begins_.write(std::as_bytes(std::span(begins)));
  state_.documents += static_cast<std::int64_t>(documents.size());
}

void IndexedDatasetWriter::add_documents(const IndexedDataset& other, ItemRange documents) {
  const std::string other_idx = idx_path(other.prefix());
  if (other.type() != type_)
    fail(Exit::bad_data, other_idx, ": element type ", name_of(other.type()), ", expected ",
         name_of(type_));
  if (other.multimodal() != options_.multimodal && other.sequences() > 0)
    fail(Exit::bad_data, other_idx, ": ", other.multimodal() ? "has" : "lacks",
         " sequence modes, unlike the others");
  const ItemRange sequences = {other.document_begin(documents.begin),
                               other.document_begin(documents.end)};
  add_bytes(other.bytes(sequences));
  state_.tokens += other.tokens(sequences);
  for (std::int64_t d = documents.begin; d < documents.end; ++d) {
    for (std::int64_t i = other.document_begin(d); i < other.document_begin(d + 1); ++i) {
      lengths_.write(as_bytes_of(static_cast<std::int32_t>(other.length(i))));
      if (options_.multimodal) modes_.write(as_bytes_of(static_cast<std::int8_t>(other.mode(i))));
      ++state_.sequences;
    }
    end_document();
  }
}

void IndexedDatasetWriter::save() {
  flush_bin();
  bin_.sync();
  for (Spill* spill : {&lengths_, &begins_, &modes_}) {
    spill->flush();
    spill->sync();
  }
}

void IndexedDatasetWriter::resume(const State& state) {
  state_ = state;
  const auto count = [](std::int64_t number) { return static_cast<std::uint64_t>(number); };
  bin_bytes_ = count(state.tokens) * size_of(type_);
  bin_.cut(bin_bytes_);
  idx_.cut(0);
  lengths_.cut(count(state.sequences) * sizeof(std::int32_t));
  begins_.cut(count(state.documents) * sizeof(std::int64_t));
  modes_.cut(options_.multimodal ? count(state.sequences) : 0);
  if (state.tokens > 0) bin_hash_.update(MappedFile(bin_.temporary_path()).bytes());
}

void IndexedDatasetWriter::write_idx(Bytes bytes) {
  idx_hash_.update(bytes);
  idx_.write(bytes);
}

void IndexedDatasetWriter::write_header() {
  struct [[gnu::packed]] {
    char magic[9] = {'M', 'M', 'I', 'D', 'I', 'D', 'X', 0, 0};
    std::uint64_t version = 1;
    std::uint8_t type;
    std::uint64_t sequences, begins;
  } header;
  static_assert(sizeof header == 34);
  header.type = static_cast<std::uint8_t>(type_);
  header.sequences = static_cast<std::uint64_t>(state_.sequences);
  header.begins = static_cast<std::uint64_t>(state_.documents) + 1;
  write_idx(std::as_bytes(std::span(&header, 1)));
}

void IndexedDatasetWriter::finish() {
  flush_bin();
  if (reserved_ > 0) bin_.cut(bin_bytes_);
  bin_.write_back();
  const auto copy = [this](Bytes bytes) { write_idx(bytes); };
  write_header();
  lengths_.replay(copy);
  std::int64_t end = 0;
  lengths_.replay([&](Bytes bytes) {
    std::vector<std::int64_t> pointers;
    pointers.reserve(bytes.size() / sizeof(std::int32_t));
    for (; !bytes.empty(); bytes = bytes.subspan(sizeof(std::int32_t))) {
      std::int32_t length;
      std::memcpy(&length, bytes.data(), sizeof length);
      pointers.push_back(end);
      end += length * static_cast<std::int64_t>(size_of(type_));
    }
    write_idx(std::as_bytes(std::span(pointers)));
  });
  write_idx(as_bytes_of(std::int64_t{0}));
  begins_.replay(copy);
  modes_.replay(copy);
  idx_.write_back();
}

void IndexedDatasetWriter::set_aside() {
  bin_.set_aside();
  idx_.set_aside();
  discard_spills();
  buffer_ = {};
}

void IndexedDatasetWriter::commit(Manifest manifest) {
  manifest.dtype = name_of(type_);
  manifest.sequences = state_.sequences;
  manifest.documents = state_.documents;
  manifest.tokens = state_.tokens;
  manifest.bin_hash = bin_hash_.hex();
  manifest.idx_hash = idx_hash_.hex();
  AtomicFile manifest_file(manifest_path(prefix_), options_.overwrite);
  manifest_file.write(manifest_text(manifest));
  const FolderLock lock(parent_directory(prefix_));
  if (options_.overwrite) {  // an old index must never stand beside new tokens
    const bool removed = remove_if_there(idx_path(prefix_));
    if (remove_if_there(manifest_path(prefix_)) || removed)
      sync_directory(parent_directory(prefix_));
  }
  try {
    commit_together(std::array{&bin_, &manifest_file, &idx_});
  } catch (...) {
    if (options_.resumable) undo_dataset_commit(prefix_);
    for (const AtomicFile* file : {&idx_, &manifest_file, &bin_})
      if (file->has_name()) ::unlink(file->path().c_str());
    throw;
  }
  discard_spills();
}

void IndexedDatasetWriter::discard_spills() {
  if (options_.resumable) return;  // the parts are needed until all datasets have their names
  for (Spill* spill : {&lengths_, &begins_, &modes_}) spill->discard();
}

void remove_parts(const std::string& prefix) {
  for (const char* part : kParts) remove_if_there(part_path(idx_path(prefix) + part));
}

void undo_dataset_commit(const std::string& prefix) {
  remove_if_there(manifest_path(prefix));
  undo_commit(idx_path(prefix));
  undo_commit(bin_path(prefix));
}

}  // namespace mt
