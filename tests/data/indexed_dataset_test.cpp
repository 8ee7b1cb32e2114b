#include "data/files/indexed_dataset.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <barrier>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <thread>

#include "base/hash.h"
#include "data/files/inspect.h"
#include "data/files/manifest.h"
#include "data/samples/gpt_index.h"
#include "tests/data/support.h"

namespace mt {
namespace {

// "01 0a" -> two bytes; blanks are ignored.
std::string from_hex(const std::string& text) {
  std::string bytes, digits;
  for (const char c : text)
    if (std::isxdigit(static_cast<unsigned char>(c))) digits += c;
  for (std::size_t i = 0; i < digits.size(); i += 2)
    bytes += static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16));
  return bytes;
}

const std::string kTwoDocumentsBin = from_hex("0100 0200 0300 0400 0500");
const std::string kTwoDocumentsIdx = from_hex(
    "4d4d49444944580000  0100000000000000  08  0200000000000000  0300000000000000"
    "03000000 02000000   0000000000000000 0600000000000000"
    "0000000000000000 0100000000000000 0200000000000000");

IndexedDataset open(const std::string& idx, const std::string& bin) {
  return IndexedDataset::from_bytes(as_bytes(idx), as_bytes(bin), "t");
}

std::vector<std::int32_t> tokens_of(const IndexedDataset& data, std::int64_t sequence) {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(data.length(sequence)));
  data.read(sequence, 0, tokens);
  return tokens;
}

TEST(IndexedDataset, TwoDocumentsAreTheseBytes) {
  const Scratch folder;
  write_documents(folder.path("t"), TokenType::u16, {{1, 2, 3}, {4, 5}});
  EXPECT_EQ(read_file(folder.path("t.bin")), kTwoDocumentsBin);
  EXPECT_EQ(read_file(folder.path("t.idx")), kTwoDocumentsIdx);
  EXPECT_EQ(folder.entries(), 3U);
  const Manifest manifest = read_manifest(folder.path("t"));
  EXPECT_EQ(manifest.dtype, "uint16");
  EXPECT_EQ(manifest.tokens, 5);
  EXPECT_EQ(manifest.bin_hash, hash_file(folder.path("t.bin")));
  EXPECT_EQ(manifest.idx_hash, hash_file(folder.path("t.idx")));
}

TEST(IndexedDataset, AnEmptyDocumentHasNoSequence) {
  const Scratch folder;
  write_documents(folder.path("t"), TokenType::u16, {{1, 2, 3}, {}, {4, 5}});
  const IndexedDataset data(folder.path("t"));
  EXPECT_EQ(data.sequences(), 2);
  EXPECT_EQ(data.documents(), 3);
  EXPECT_EQ(data.document_begin(1), 1);
  EXPECT_EQ(data.document_begin(2), 1);
  EXPECT_EQ(data.document_begin(3), 2);
}

TEST(IndexedDataset, SeveralSequencesInADocument) {
  const Scratch folder;
  IndexedDatasetWriter writer(folder.path("t"), TokenType::u16, {});
  const std::vector<std::int32_t> first = {1, 2, 3, 4, 5}, last = {6, 7, 8, 9};
  writer.add_document(first, std::vector<std::int32_t>{3, 2});
  writer.add_document({}, {});
  writer.add_document(last, std::vector<std::int32_t>{4});
  writer.finish();
  writer.commit({});
  EXPECT_EQ(read_file(folder.path("t.idx")),
            from_hex("4d4d49444944580000 0100000000000000 08 0300000000000000 0400000000000000"
                     "03000000 02000000 04000000"
                     "0000000000000000 0600000000000000 0a00000000000000"
                     "0000000000000000 0200000000000000 0200000000000000 0300000000000000"));
}

TEST(IndexedDataset, ReadsPartsOfSequences) {
  const IndexedDataset data = open(kTwoDocumentsIdx, kTwoDocumentsBin);
  EXPECT_EQ(data.tokens(), 5);
  EXPECT_EQ(data.type(), TokenType::u16);
  EXPECT_EQ(tokens_of(data, 0), (std::vector<std::int32_t>{1, 2, 3}));
  std::int64_t wide[2];
  data.read(0, 1, std::span<std::int64_t>(wide));
  EXPECT_EQ(wide[0], 2);
  EXPECT_EQ(wide[1], 3);
  EXPECT_EQ(as_text(data.sequence(1)), kTwoDocumentsBin.substr(6));
}

// Parts of a large index are checked side by side: what one begins with may be any number.
TEST(IndexedDataset, APartMayFollowWhatIsWrong) {
  constexpr std::int64_t kSequences = (1 << 20) + 1, kLast = kSequences - 2;
  std::string idx = kTwoDocumentsIdx.substr(0, 18);
  const auto put = [&](auto number) {
    idx.append(reinterpret_cast<const char*>(&number), sizeof number);
  };
  put(kSequences);
  put(std::int64_t{2});
  for (std::int64_t i = 0; i < kSequences; ++i)
    put(i == kLast ? std::numeric_limits<std::int32_t>::max() : std::int32_t{1});
  for (std::int64_t i = 0; i < kSequences; ++i)
    put(i == kLast ? std::numeric_limits<std::int64_t>::max() : 2 * i);
  put(std::int64_t{0});
  put(kSequences);
  const std::string bin(2 * kSequences, '\0');
  EXPECT_EQ(error_of([&] { open(idx, bin); }),
            concat("65 t.idx: byte ", 34 + 4 * kSequences + 8 * kLast, ": sequence ", kLast,
                   ": starts at byte 9223372036854775807 of .bin, expected ", 2 * kLast));
}

// Two that overwrite each other: what is there in the end is one of them, tokens, index and
// manifest.
TEST(IndexedDataset, OfTwoWritersOfOneNameOneIsWhole) {
  const Scratch folder;
  const std::string prefix = folder.path("t");
  for (int round = 0; round < 100; ++round) {
    std::barrier together(2);
    const auto write = [&](std::int32_t token) {
      IndexedDatasetWriter writer(prefix, TokenType::u16, {.overwrite = true});
      const std::vector<std::int32_t> tokens(static_cast<std::size_t>(token), token);
      writer.add_document(tokens, std::vector{token});
      writer.finish();
      together.arrive_and_wait();
      writer.commit({});
    };
    std::thread other([&] { write(3); });
    write(5);
    other.join();
    ASSERT_EQ(differences_from_manifest(prefix), std::vector<std::string>());
  }
  EXPECT_EQ(folder.entries(), 3U);
}

TEST(IndexedDataset, AddDatasetShiftsTheDocuments) {
  const Scratch folder;
  const IndexedDataset data = open(kTwoDocumentsIdx, kTwoDocumentsBin);
  IndexedDatasetWriter writer(folder.path("m"), TokenType::u16, {});
  writer.add_documents(data, {0, data.documents()});
  writer.add_documents(data, {0, data.documents()});
  writer.finish();
  writer.commit({});
  const IndexedDataset merged(folder.path("m"));
  EXPECT_EQ(merged.sequences(), 4);
  EXPECT_EQ(merged.tokens(), 10);
  for (std::int64_t d = 0; d <= 4; ++d) EXPECT_EQ(merged.document_begin(d), d);
  EXPECT_EQ(tokens_of(merged, 3), (std::vector<std::int32_t>{4, 5}));
  IndexedDatasetWriter other(folder.path("o"), TokenType::i32, {});
  EXPECT_EQ(code_of([&] { other.add_documents(data, {0, data.documents()}); }), Exit::bad_data);
}

TEST(IndexedDataset, NothingAtAllIsADataset) {
  const Scratch folder;
  write_documents(folder.path("none"), TokenType::i32, {});
  EXPECT_EQ(IndexedDataset(folder.path("none")).documents(), 0);
  write_documents(folder.path("empty"), TokenType::i32, {{}, {}});
  const IndexedDataset data(folder.path("empty"));
  EXPECT_EQ(data.documents(), 2);
  EXPECT_EQ(data.sequences(), 0);
  EXPECT_EQ(data.tokens(), 0);
}

class EachTokenType : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Codes, EachTokenType, testing::Range(1, 9));

TEST_P(EachTokenType, RoundTrip) {
  const auto type = static_cast<TokenType>(GetParam());
  const Scratch folder;
  write_documents(folder.path("t"), type, {{0, 1, 127}, {3}});
  const IndexedDataset data(folder.path("t"));
  EXPECT_EQ(data.type(), type);
  EXPECT_EQ(data.sequence(0).size(), 3 * size_of(type));
  if (type == TokenType::f32 || type == TokenType::f64)
    EXPECT_EQ(code_of([&] { tokens_of(data, 0); }), Exit::bad_data);
  else
    EXPECT_EQ(tokens_of(data, 0), (std::vector<std::int32_t>{0, 1, 127}));
}

TEST(IndexedDataset, LargeTokensFitOrAreRefused) {
  const Scratch folder;
  write_documents(folder.path("t"), TokenType::u16, {{65535}});
  EXPECT_EQ(tokens_of(IndexedDataset(folder.path("t")), 0), (std::vector<std::int32_t>{65535}));
  for (const std::int32_t token : {65536, -1})
    EXPECT_EQ(code_of([&] { write_documents(folder.path("u"), TokenType::u16, {{token}}); }),
              Exit::bad_data);
  EXPECT_EQ(folder.entries(), 3U) << "a refused file leaves nothing behind";

  std::string idx = kTwoDocumentsIdx, bin(40, '\0');
  idx[17] = 5;
  const std::int64_t second = 24;
  std::memcpy(idx.data() + 42 + 8, &second, 8);
  bin[4] = 1;  // 2^32
  const IndexedDataset wide = open(idx, bin);
  EXPECT_EQ(code_of([&] { tokens_of(wide, 0); }), Exit::bad_data);
  EXPECT_EQ(tokens_of(wide, 1), (std::vector<std::int32_t>{0, 0}));
}

TEST(IndexedDataset, ModesAreRecognisedByTheFileSize) {
  const std::string idx = kTwoDocumentsIdx + '\0' + '\1';
  const IndexedDataset data = open(idx, kTwoDocumentsBin);
  EXPECT_TRUE(data.multimodal());
  EXPECT_EQ(data.mode(0), 0);
  EXPECT_EQ(data.mode(1), 1);
  EXPECT_FALSE(open(kTwoDocumentsIdx, kTwoDocumentsBin).multimodal());
}

TEST(IndexedDataset, CutAnywhereItIsBadData) {
  for (std::size_t size = 0; size < kTwoDocumentsIdx.size(); ++size)
    EXPECT_EQ(code_of([&] { open(kTwoDocumentsIdx.substr(0, size), kTwoDocumentsBin); }),
              Exit::bad_data)
        << size;
  for (std::size_t size = 0; size < kTwoDocumentsBin.size(); ++size)
    EXPECT_EQ(code_of([&] { open(kTwoDocumentsIdx, kTwoDocumentsBin.substr(0, size)); }),
              Exit::bad_data)
        << size;
  EXPECT_EQ(code_of([] { open(kTwoDocumentsIdx, kTwoDocumentsBin + "x"); }), Exit::bad_data);
  EXPECT_EQ(code_of([] { open(kTwoDocumentsIdx + "x", kTwoDocumentsBin); }), Exit::bad_data);
}

// Every byte of a plain index carries meaning: whatever one is changed to, the file is refused.
TEST(IndexedDataset, AnyFlippedBitIsBadData) {
  for (std::size_t at = 0; at < kTwoDocumentsIdx.size(); ++at)
    for (int bit = 0; bit < 8; ++bit) {
      std::string idx = kTwoDocumentsIdx;
      idx[at] = static_cast<char>(idx[at] ^ (1 << bit));
      const bool still_a_dataset =
          at >= 34 + 24 + 8 && at < 34 + 24 + 16;  // second document's begin
      if (at == 17 || still_a_dataset) continue;
      EXPECT_EQ(code_of([&] { open(idx, kTwoDocumentsBin); }), Exit::bad_data) << at << ' ' << bit;
    }
}

TEST(IndexedDataset, ErrorsSayWhereAndWhat) {
  const auto changed = [](std::size_t at, char value) {
    std::string idx = kTwoDocumentsIdx;
    idx[at] = value;
    return error_of([&] { open(idx, kTwoDocumentsBin); });
  };
  EXPECT_EQ(changed(0, 'X'), "65 t.idx: byte 0: not a token index, expected \"MMIDIDX\"");
  EXPECT_EQ(changed(9, 2), "65 t.idx: byte 9: version 2, expected 1");
  EXPECT_EQ(changed(17, 9), "65 t.idx: byte 17: element type 9, expected 1 to 8");
  EXPECT_EQ(changed(25, 127),
            "65 t.idx: byte 18: 9151314442816847874 sequences in a file of 82 bytes");
  EXPECT_EQ(changed(34, 4), "65 t.idx: byte 50: sequence 1: starts at byte 6 of .bin, expected 8");
  EXPECT_EQ(changed(37, -1), "65 t.idx: byte 34: sequence 0: length -16777213, expected 0 or more");
  EXPECT_EQ(changed(38, 1), "65 t.bin: 10 bytes, expected 8 as the index says");
  EXPECT_EQ(changed(66, 3), "65 t.idx: byte 66: document 1 begins at sequence 3, expected 0 to 2");
  EXPECT_EQ(changed(74, 1), "65 t.idx: byte 74: the documents end at sequence 1, expected 2");
}

TEST(IndexedDataset, MissingFiles) {
  const Scratch folder;
  EXPECT_EQ(code_of([&] { IndexedDataset(folder.path("absent")); }), Exit::no_input);
  write_file_atomically(folder.path("half.idx"), kTwoDocumentsIdx, false);
  EXPECT_EQ(code_of([&] { IndexedDataset(folder.path("half")); }), Exit::no_input);
}

TEST(IndexedDatasetWriter, ExistingFilesNeedOverwrite) {
  const Scratch folder;
  write_documents(folder.path("t"), TokenType::u16, {{1}});
  EXPECT_EQ(code_of([&] { IndexedDatasetWriter(folder.path("t"), TokenType::u16, {}); }),
            Exit::cannot_create);
  IndexedDatasetWriter writer(folder.path("t"), TokenType::u16, {.overwrite = true});
  writer.add_document(std::vector<std::int32_t>{7, 8}, std::vector<std::int32_t>{2});
  writer.finish();
  EXPECT_EQ(IndexedDataset(folder.path("t")).tokens(), 1) << "not before commit()";
  writer.commit({});
  EXPECT_EQ(tokens_of(IndexedDataset(folder.path("t")), 0), (std::vector<std::int32_t>{7, 8}));
  EXPECT_EQ(folder.entries(), 3U);
}

TEST(IndexedDatasetWriter, DroppedItLeavesNothing) {
  const Scratch folder;
  {
    IndexedDatasetWriter writer(folder.path("t"), TokenType::u16, {});
    writer.add_document(std::vector<std::int32_t>{7}, std::vector<std::int32_t>{1});
    writer.finish();
  }
  EXPECT_EQ(folder.entries(), 0U);
}

// More than one write buffer, and documents larger than it.
TEST(IndexedDatasetWriter, LongDocuments) {
  const Scratch folder;
  Documents documents(3);
  for (int i = 0; i < 700000; ++i) documents[static_cast<std::size_t>(i % 3)].push_back(i % 65536);
  write_documents(folder.path("t"), TokenType::u16, documents);
  const IndexedDataset data(folder.path("t"));
  ASSERT_EQ(data.tokens(), 700000);
  struct stat status;  // no room is kept behind the end
  ASSERT_EQ(::stat(folder.path("t.bin").c_str(), &status), 0);
  EXPECT_LT(status.st_blocks * 512, 1400000 + (64 << 10));
  for (std::int64_t i = 0; i < 3; ++i)
    EXPECT_EQ(tokens_of(data, i), documents[static_cast<std::size_t>(i)]);
}

// 3 sequences of 2^31 - 1 tokens: offsets beyond 32 bits, in a file of holes.
TEST(IndexedDataset, SequencesAndOffsetsBeyond32Bits) {
  const Scratch folder;
  const std::int64_t most = INT32_MAX, bytes = 6 * most;
  std::string idx = from_hex(
      "4d4d49444944580000 0100000000000000 08 0300000000000000 0200000000000000"
      "ffffff7f ffffff7f ffffff7f");
  for (const std::int64_t value :
       {std::int64_t{0}, 2 * most, 4 * most, std::int64_t{0}, std::int64_t{3}})
    idx += as_text(std::as_bytes(std::span(&value, 1)));
  write_file_atomically(idx_path(folder.path("t")), idx, false);
  write_file_atomically(bin_path(folder.path("t")), "", false);
  std::filesystem::resize_file(bin_path(folder.path("t")), static_cast<std::uintmax_t>(bytes - 2));
  EXPECT_EQ(code_of([&] { IndexedDataset(folder.path("t")); }), Exit::bad_data);
  std::filesystem::resize_file(bin_path(folder.path("t")), static_cast<std::uintmax_t>(bytes));
  std::fstream bin(bin_path(folder.path("t")), std::ios::in | std::ios::out | std::ios::binary);
  bin.seekp(bytes - 2).write("\x34\x12", 2);
  bin.close();

  const IndexedDataset data(folder.path("t"));
  EXPECT_EQ(data.tokens(), 3 * most);
  std::int32_t last[2];
  data.read(2, most - 2, last);
  EXPECT_EQ(last[0], 0);
  EXPECT_EQ(last[1], 0x1234);
  const GptIndex index(data, {.sequences = {0, 3}, .seq_length = 1 << 20, .num_samples = 7000});
  EXPECT_EQ(index.epochs(), 2);
  EXPECT_EQ(index.size(), (6 * most - 1) >> 20);
  EXPECT_EQ(index.sample(index.size()), (SamplePlace{5, most - (6 * most - (index.size() << 20))}));
}

TEST(TokenTypes, VocabulariesChooseTheirType) {
  EXPECT_EQ(token_type_for(65499), TokenType::u16);
  EXPECT_EQ(token_type_for(65500), TokenType::i32);
}

}  // namespace
}  // namespace mt
