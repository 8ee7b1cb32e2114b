#include "data/indexed_dataset_writer.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <limits>
#include <type_traits>

#include "base/error.h"

namespace mt {
namespace {

constexpr std::size_t kBufferBytes = 1 << 20;

template <class T>
Bytes bytes_of(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

void remove_if_there(const std::string& path) {
  if (::unlink(path.c_str()) != 0 && errno != ENOENT)
    fail_errno(path, "cannot remove", Exit::cannot_create);
}

}  // namespace

IndexedDatasetWriter::IndexedDatasetWriter(const std::string& prefix, TokenType type,
                                           bool overwrite)
    : prefix_(prefix),
      type_(type),
      overwrite_(overwrite),
      bin_(bin_path(prefix), overwrite),
      idx_(idx_path(prefix), overwrite) {
  if (!overwrite && std::filesystem::exists(manifest_path(prefix)))
    fail(Exit::cannot_create, manifest_path(prefix), ": exists already; --force overwrites it");
  buffer_.reserve(kBufferBytes + (kBufferBytes >> 4));
}

void IndexedDatasetWriter::append(std::span<const std::int32_t> tokens) {
  constexpr std::size_t kStep = kBufferBytes / 64;  // tokens converted at a time
  for (; !tokens.empty(); tokens = tokens.subspan(std::min(kStep, tokens.size()))) {
    const auto step = tokens.first(std::min(kStep, tokens.size()));
    with_token_type(type_, [&]<class T>() {
      const std::size_t at = buffer_.size();
      buffer_.resize(at + step.size() * sizeof(T));
      for (std::size_t i = 0; i < step.size(); ++i) {
        const T value = static_cast<T>(step[i]);
        if (static_cast<std::int64_t>(value) != step[i])
          fail(Exit::bad_data, bin_.path(), ": token ", step[i], " of document ", documents(),
               " does not fit ", name_of(type_));
        std::memcpy(buffer_.data() + at + i * sizeof(T), &value, sizeof(T));
      }
    });
    if (buffer_.size() >= kBufferBytes) flush_bin();
  }
}

void IndexedDatasetWriter::flush_bin() {
  bin_hash_.update(Bytes(buffer_));
  bin_.write(Bytes(buffer_));
  buffer_.clear();
}

void IndexedDatasetWriter::add_document(std::span<const std::int32_t> tokens,
                                        std::span<const std::int32_t> lengths) {
  std::int64_t sum = 0;
  for (const std::int32_t length : lengths) sum += length;
  if (sum != static_cast<std::int64_t>(tokens.size()))
    fail(Exit::internal, prefix_, ": document ", documents(), ": lengths sum to ", sum, ", not ",
         tokens.size());
  append(tokens);
  lengths_.insert(lengths_.end(), lengths.begin(), lengths.end());
  begins_.push_back(sequences());
  tokens_ += sum;
}

void IndexedDatasetWriter::add_dataset(const IndexedDataset& other) {
  if (other.type() != type_)
    fail(Exit::bad_data, idx_path(other.prefix()), ": element type ", name_of(other.type()),
         ", expected ", name_of(type_));
  if (other.multimodal())
    fail(Exit::bad_data, idx_path(other.prefix()), ": has sequence modes, expected plain text");
  const std::int64_t first = sequences();
  for (std::int64_t i = 0; i < other.sequences(); ++i)
    lengths_.push_back(static_cast<std::int32_t>(other.length(i)));
  for (std::int64_t d = 1; d <= other.documents(); ++d)
    begins_.push_back(first + other.document_begin(d));
  flush_bin();
  bin_hash_.update(other.bin_bytes());
  bin_.write(other.bin_bytes());
  tokens_ += other.tokens();
}

void IndexedDatasetWriter::write_idx(Bytes bytes) {
  idx_hash_.update(bytes);
  idx_.write(bytes);
}

void IndexedDatasetWriter::finish() {
  flush_bin();
  struct [[gnu::packed]] {
    char magic[9] = {'M', 'M', 'I', 'D', 'I', 'D', 'X', 0, 0};
    std::uint64_t version = 1;
    std::uint8_t type;
    std::uint64_t sequences, begins;
  } header;
  static_assert(sizeof header == 34);
  header.type = static_cast<std::uint8_t>(type_);
  header.sequences = lengths_.size();
  header.begins = begins_.size();
  write_idx(std::as_bytes(std::span(&header, 1)));
  write_idx(bytes_of(lengths_));
  std::vector<std::int64_t> pointers;
  std::int64_t end = 0;
  for (std::size_t i = 0; i < lengths_.size(); ++i) {
    pointers.push_back(end);
    end += lengths_[i] * static_cast<std::int64_t>(size_of(type_));
    if (pointers.size() == kBufferBytes / 8) {
      write_idx(bytes_of(pointers));
      pointers.clear();
    }
  }
  write_idx(bytes_of(pointers));
  write_idx(bytes_of(begins_));
}

void IndexedDatasetWriter::commit(Manifest manifest) {
  manifest.dtype = name_of(type_);
  manifest.sequences = sequences();
  manifest.documents = documents();
  manifest.tokens = tokens();
  manifest.bin_hash = bin_hash_.hex();
  manifest.idx_hash = idx_hash_.hex();
  AtomicFile manifest_file(manifest_path(prefix_), overwrite_);
  manifest_file.write(manifest_text(manifest));
  if (overwrite_) {  // an old index must never stand beside new tokens
    remove_if_there(idx_path(prefix_));
    remove_if_there(manifest_path(prefix_));
    sync_directory(parent_directory(prefix_));
  }
  try {
    bin_.commit();
    manifest_file.commit();
    idx_.commit();
  } catch (...) {
    for (const AtomicFile* file : {&idx_, &manifest_file, &bin_})
      if (file->has_name()) ::unlink(file->path().c_str());
    throw;
  }
}

}  // namespace mt
