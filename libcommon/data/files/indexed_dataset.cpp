#include "data/files/indexed_dataset.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <filesystem>
#include <limits>
#include <type_traits>

#include "base/error.h"
#include "base/hash.h"
#include "base/near_path.h"
#include "base/threads.h"
#include "data/files/known_files.h"
#include "data/files/manifest.h"

namespace mt {
namespace {

constexpr std::size_t kHeaderBytes = 34;
constexpr char kMagic[9] = {'M', 'M', 'I', 'D', 'I', 'D', 'X', 0, 0};

template <class T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

template <class T>
T load_at(const std::byte* array, std::int64_t index) {
  return load<T>(array + index * static_cast<std::int64_t>(sizeof(T)));
}

}  // namespace

std::string bin_path(const std::string& prefix) { return prefix + ".bin"; }
std::string idx_path(const std::string& prefix) { return prefix + ".idx"; }

// What is there, but is not what token files begin with.
static void refuse_other_than_prefix(const std::string& path) {
  std::error_code none;
  if (std::filesystem::is_directory(path, none))
    fail(Exit::no_input, path, ": is a folder, expected the prefix of a token file; in it: ",
         names_text(names_beside(path + "/", ".idx")));
  if (std::filesystem::is_regular_file(path, none))
    fail(Exit::no_input, path,
         ": is a file, expected the prefix of a token file, as mt-preprocess ", "--input ", path,
         " --output-prefix PREFIX makes");
}

void require_token_files(const std::string& prefix) {
  refuse_part_of_token_file(prefix);
  for (const char* const ending : {".idx", ".bin"}) {
    std::error_code none;
    if (std::filesystem::exists(prefix + ending, none) || none) continue;
    refuse_other_than_prefix(prefix);
    fail(Exit::no_input, prefix, ending, ": cannot open: No such file or directory",
         what_is_there(prefix, ending));
  }
}

static std::unique_ptr<MappedFile> map_file(const std::string& prefix, const std::string& path) {
  require_token_files(prefix);
  return std::make_unique<MappedFile>(path);
}

IndexedDataset::IndexedDataset(const std::string& prefix) : IndexedDataset(prefix, KnownFiles()) {}

IndexedDataset::IndexedDataset(const std::string& prefix, const KnownFiles& known)
    : prefix_(prefix),
      idx_file_(map_file(prefix, idx_path(prefix))),
      bin_file_(map_file(prefix, bin_path(prefix))),
      idx_(idx_file_->bytes()),
      bin_(bin_file_->bytes()) {
  read_header();
  idx_hash_ = known.hash(idx_path(prefix), [&] {
    std::string hash;  // only where it is kept, or else when somebody asks
    parallel_for_ordered_errors(known.kept() ? 2 : 1, [&](std::int64_t task) {
      if (task == 0) return check();
      hash = hash_once(*idx_file_, idx_);
    });
    return hash;
  });
  check_size();
}

IndexedDataset::IndexedDataset(const std::string& prefix, Bytes idx, Bytes bin)
    : prefix_(prefix), idx_(idx), bin_(bin) {
  read_header();
  check();
  check_size();
}

IndexedDataset IndexedDataset::from_bytes(Bytes idx, Bytes bin, const std::string& name) {
  return {name, idx, bin};
}

void IndexedDataset::read_header() {
  const std::string path = idx_path(prefix_);
  if (idx_.size() < kHeaderBytes)
    fail(Exit::bad_data, path, ": ", idx_.size(), " bytes, expected at least ", kHeaderBytes);
  if (std::memcmp(idx_.data(), kMagic, sizeof kMagic) != 0)
    fail(Exit::bad_data, path, ": byte 0: not a token index, expected \"MMIDIDX\"");
  if (const auto version = load<std::uint64_t>(idx_.data() + 9); version != 1)
    fail(Exit::bad_data, path, ": byte 9: version ", version, ", expected 1");
  const int code = std::to_integer<int>(idx_[17]);
  if (code < 1 || code > 8)
    fail(Exit::bad_data, path, ": byte 17: element type ", code, ", expected 1 to 8");
  type_ = static_cast<TokenType>(code);
  token_bytes_ = size_of(type_);

  const auto sequences = load<std::uint64_t>(idx_.data() + 18);
  const auto begins = load<std::uint64_t>(idx_.data() + 26);
  const std::size_t rest = idx_.size() - kHeaderBytes;
  if (sequences > rest / 12)
    fail(Exit::bad_data, path, ": byte 18: ", sequences, " sequences in a file of ", idx_.size(),
         " bytes");
  if (begins == 0) fail(Exit::bad_data, path, ": byte 26: no document index, expected 1 or more");
  if (begins > rest / 8)
    fail(Exit::bad_data, path, ": byte 26: ", begins, " document indices in a file of ",
         idx_.size(), " bytes");
  const std::size_t expected = kHeaderBytes + 12 * sequences + 8 * begins;
  const bool has_modes = sequences > 0 && idx_.size() == expected + sequences;
  if (idx_.size() != expected && !has_modes)
    fail(Exit::bad_data, path, ": ", idx_.size(), " bytes, expected ", expected, " for ", sequences,
         " sequences and ", begins, " document indices");

  sequences_ = static_cast<std::int64_t>(sequences);
  documents_ = static_cast<std::int64_t>(begins) - 1;
  lengths_ = idx_.data() + kHeaderBytes;
  pointers_ = lengths_ + 4 * sequences;
  begins_ = pointers_ + 8 * sequences;
  modes_ = has_modes ? begins_ + 8 * begins : nullptr;
}

// All but the end of .bin, in parts: so that of a large file no more than those are in memory.
void IndexedDataset::check() const {
  constexpr std::int64_t kPart = 1 << 20;
  const auto parts = [](std::int64_t count) { return count / kPart + 1; };
  const auto part = [](std::int64_t number, std::int64_t count) {
    return ItemRange{number * kPart, std::min(count, (number + 1) * kPart)};
  };
  const std::int64_t of_sequences = parts(sequences_), of_documents = parts(documents_ + 1);
  parallel_for_ordered_errors(of_sequences + of_documents, [&](std::int64_t i) {
    if (i < of_sequences)
      check_sequences(part(i, sequences_));
    else
      check_documents(part(i - of_sequences, documents_ + 1));
  });
}

std::int64_t IndexedDataset::end_of(std::int64_t sequence) const {
  return pointer(sequence) + length(sequence) * static_cast<std::int64_t>(token_bytes_);
}

void IndexedDataset::check_sequences(ItemRange sequences) const {
  const std::string path = idx_path(prefix_);
  // Where the part before ends, as whoever checks that part finds it, who refuses what is beyond
  // .bin; from there at most 2^31 * 8 is added while at most the size of .bin.
  std::uint64_t end = 0;
  if (const std::int64_t before = sequences.begin - 1; before >= 0)
    end = static_cast<std::uint64_t>(pointer(before)) +
          static_cast<std::uint64_t>(length(before)) * token_bytes_;
  for (std::int64_t i = sequences.begin; i < sequences.end; ++i) {
    const auto tokens = load_at<std::int32_t>(lengths_, i);
    if (tokens < 0)
      fail(Exit::bad_data, path, ": byte ", kHeaderBytes + 4 * i, ": sequence ", i, ": length ",
           tokens, ", expected 0 or more");
    if (static_cast<std::uint64_t>(pointer(i)) != end)
      fail(Exit::bad_data, path, ": byte ", pointers_ - idx_.data() + 8 * i, ": sequence ", i,
           ": starts at byte ", pointer(i), " of .bin, expected ", end);
    end += static_cast<std::uint64_t>(tokens) * token_bytes_;
    if (end > bin_.size())
      fail(Exit::bad_data, bin_path(prefix_), ": ", bin_.size(), " bytes, but sequence ", i,
           " ends at byte ", end);
  }
  forget(lengths_ + 4 * sequences.begin, lengths_ + 4 * sequences.end);
  forget(pointers_ + 8 * sequences.begin, pointers_ + 8 * sequences.end);
}

void IndexedDataset::check_documents(ItemRange documents) const {
  const std::string path = idx_path(prefix_);
  std::int64_t previous = documents.begin == 0 ? 0 : document_begin(documents.begin - 1);
  for (std::int64_t d = documents.begin; d < documents.end; ++d) {
    const std::int64_t begin = document_begin(d);
    const bool wrong = d == 0 ? begin != 0 : begin < previous || begin > sequences_;
    if (wrong)
      fail(Exit::bad_data, path, ": byte ", begins_ - idx_.data() + 8 * d, ": document ", d,
           " begins at sequence ", begin, ", expected ",
           d == 0 ? std::string("0") : concat(previous, " to ", sequences_));
    previous = begin;
  }
  if (documents.end == documents_ + 1 && previous != sequences_)
    fail(Exit::bad_data, path, ": byte ", begins_ - idx_.data() + 8 * documents_,
         ": the documents end at sequence ", previous, ", expected ", sequences_);
  forget(begins_ + 8 * documents.begin, begins_ + 8 * documents.end);
}

void IndexedDataset::check_size() const {
  const auto end = static_cast<std::uint64_t>(sequences_ == 0 ? 0 : end_of(sequences_ - 1));
  if (end != bin_.size())
    fail(Exit::bad_data, bin_path(prefix_), ": ", bin_.size(), " bytes, expected ", end,
         " as the index says");
}

void IndexedDataset::forget(const std::byte* begin, const std::byte* end) const {
  if (idx_file_) idx_file_->forget({begin, end});
}

std::int64_t IndexedDataset::length(std::int64_t sequence) const {
  assert(sequence >= 0 && sequence < sequences_);
  return load_at<std::int32_t>(lengths_, sequence);
}

std::int64_t IndexedDataset::tokens(ItemRange sequences) const {
  assert(0 <= sequences.begin && sequences.begin <= sequences.end && sequences.end <= sequences_);
  const auto at = [&](std::int64_t sequence) {  // the first token of the file in it
    return sequence == sequences_ ? tokens()
                                  : pointer(sequence) / static_cast<std::int64_t>(token_bytes_);
  };
  return at(sequences.end) - at(sequences.begin);
}

std::int64_t IndexedDataset::document_of(std::int64_t sequence) const {
  assert(sequence >= 0 && sequence < sequences_);
  std::int64_t low = 0, high = documents_;  // begins at or before the sequence, begins after it
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    (document_begin(middle) <= sequence ? low : high) = middle;
  }
  return low;
}

std::string IndexedDataset::lengths_hash() const {
  return idx_hash_.empty() ? hash_hex(idx_) : idx_hash_;
}

std::int64_t IndexedDataset::mode(std::int64_t sequence) const {
  assert(sequence >= 0 && sequence < sequences_);
  return modes_ == nullptr ? 0 : load_at<std::int8_t>(modes_, sequence);
}

std::int64_t IndexedDataset::document_begin(std::int64_t document) const {
  assert(document >= 0 && document <= documents_);
  return load_at<std::int64_t>(begins_, document);
}

std::int64_t IndexedDataset::pointer(std::int64_t sequence) const {
  return load_at<std::int64_t>(pointers_, sequence);
}

Bytes IndexedDataset::bytes(ItemRange sequences) const {
  if (sequences.begin == sequences.end) return {};
  return bin_.subspan(static_cast<std::size_t>(pointer(sequences.begin)),
                      static_cast<std::size_t>(tokens(sequences)) * token_bytes_);
}

void IndexedDataset::read(std::int64_t sequence, std::int64_t offset,
                          std::span<std::int32_t> out) const {
  read_as(sequence, offset, out);
}

void IndexedDataset::read(std::int64_t sequence, std::int64_t offset,
                          std::span<std::int64_t> out) const {
  read_as(sequence, offset, out);
}

template <class Out>
void IndexedDataset::read_as(std::int64_t sequence, std::int64_t offset, std::span<Out> out) const {
  assert(offset >= 0 && offset + static_cast<std::int64_t>(out.size()) <= length(sequence));
  with_token_type(type_, [&]<class T>() {
    if constexpr (std::is_floating_point_v<T>) {
      fail(Exit::bad_data, bin_path(prefix_), ": elements of type ", name_of(type_),
           ", expected integer token ids");
    } else {
      const std::byte* from =
          bin_.data() + pointer(sequence) + offset * static_cast<std::int64_t>(sizeof(T));
      for (std::size_t i = 0; i < out.size(); ++i) {
        const T token = load_at<T>(from, static_cast<std::int64_t>(i));
        if constexpr (sizeof(T) > sizeof(Out)) {
          if (token < std::numeric_limits<Out>::min() || token > std::numeric_limits<Out>::max())
            fail(Exit::bad_data, bin_path(prefix_), ": sequence ", sequence, ": token ", token,
                 " does not fit 32 bits");
        }
        out[i] = static_cast<Out>(token);
      }
    }
  });
}

}  // namespace mt
