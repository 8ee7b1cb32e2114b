#include "ckpt/zip.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

#include <cstring>

#include "ckpt/torch_file.h"
#include "tests/ckpt/sample.h"
#include "tests/ckpt/support.h"

namespace mt {
namespace {

using namespace std::string_literals;
using test::error_of;

std::string zip_of(const std::string& root,
                   const std::vector<std::pair<std::string, std::string>>& records) {
  std::string out;
  ZipWriter zip(root, [&](Bytes bytes) { out += as_text(bytes); });
  for (const auto& [name, content] : records) zip.add(name, content);
  zip.finish();
  EXPECT_EQ(zip.written(), out.size());
  return out;
}

// The records of an archive, written again by us.
std::string rewritten(const std::string& archive) {
  const ZipReader reader(as_bytes(archive), "golden");
  std::vector<std::pair<std::string, std::string>> records;
  for (const std::string& name : reader.records())
    records.emplace_back(name, as_text(reader.at(name)));
  return zip_of(reader.root(), records);
}

std::uint32_t u32_at(const std::string& bytes, std::size_t at) {
  std::uint32_t number;
  std::memcpy(&number, bytes.data() + at, 4);
  return number;
}

TEST(ZipWriter, ReproducesPyTorchsArchives) {
  for (const char* name : {"torch-1.13-tensor.pt", "object.pt", "mcore/common.pt"}) {
    const std::string archive = read_file(test::testdata(name));
    EXPECT_EQ(rewritten(archive), archive) << name;
  }
}

TEST(ZipWriter, LargeRecordsAreSummedUpWhole) {
  std::string content(3'500'000, 'a');
  content[3'000'000] = 'b';
  const std::string archive = zip_of("archive", {{"data/0", content}});
  const auto* const bytes = reinterpret_cast<const Bytef*>(content.data());
  const std::size_t descriptor = 64 + content.size();
  EXPECT_EQ(archive.substr(64, content.size()), content);
  EXPECT_EQ(u32_at(archive, descriptor + 4), ::crc32(0, bytes, static_cast<uInt>(content.size())));
}

struct GoldenRecord {
  std::uint32_t header, payload, size, crc, pad;
};

TEST(ZipWriter, DistcpItemIsLaidOutAsSpecified) {  // specification 9.3
  const std::string files[2] = {"ace40678ee3f6f9b458cc0cbb8ccab693c04da1edf3958d6cf46136a6e05c3ee",
                                "c8a62ed228a36335a5f343065d62c434d2e9819ddd1a6e7971033a2c06d8793d"};
  const GoldenRecord records[] = {{0, 64, 130, 0xe0a43506, 14},   {210, 320, 1, 0x83dcefb7, 53},
                                  {337, 448, 2, 0xe971773f, 51},  {466, 576, 6, 0x19e33d85, 59},
                                  {598, 704, 16, 0x8ba71454, 58}, {736, 832, 2, 0x55679ed1, 47},
                                  {850, 960, 40, 0x963fbb8e, 46}};
  const test::TemporaryFolder folder;
  for (int i = 0; i < 2; ++i) {
    const float first = static_cast<float>(4 * i);
    const float elements[4] = {first + 1, first + 2, first + 3, first + 4};
    std::string item;
    write_torch_tensor({elements, DType::f32, {2, 2}}, [&](Bytes b) { item += as_text(b); });
    ASSERT_EQ(item.size(), 1577u);
    test::write_whole(folder / "item", item);
    EXPECT_EQ(test::sha256_of(folder / "item"), files[i]);
    if (i > 0) continue;
    for (const GoldenRecord& r : records) {
      EXPECT_EQ(u32_at(item, r.header), 0x04034B50u);
      EXPECT_EQ(item.substr(r.payload - r.pad - 4, 2), "FB");
      EXPECT_EQ(u32_at(item, r.payload + r.size + 4), r.crc);
      EXPECT_EQ(u32_at(item, r.payload + r.size + 8), r.size);
    }
  }
}

TEST(ZipWriter, EmptyRecordHasNoDescriptor) {
  const std::string archive = zip_of("a", {{"x", ""}, {"y", "1"}});
  EXPECT_EQ(archive.substr(6, 2), "\0\x08"s);
  EXPECT_EQ(archive.substr(64, 4), "PK\3\4");
  const ZipReader reader(as_bytes(archive), "a");
  EXPECT_EQ(reader.root(), "a");
  EXPECT_EQ(reader.records(), (std::vector<std::string>{"x", "y"}));
  EXPECT_EQ(reader.at("x").size(), 0u);
  EXPECT_EQ(as_text(reader.at("y")), "1");
  EXPECT_EQ(reader.find("z"), nullptr);
  EXPECT_NE(error_of([&] { reader.at("z"); }), "");
}

TEST(ZipReader, Deflated) {
  const std::string stored = read_file(test::testdata("object.pt"));
  const std::string packed = read_file(test::testdata("deflated.pt"));
  const ZipReader a(as_bytes(stored), "object.pt"), b(as_bytes(packed), "deflated.pt");
  ASSERT_EQ(a.records(), b.records());
  for (const std::string& name : a.records()) EXPECT_EQ(as_text(a.at(name)), as_text(b.at(name)));
}

// A record of more than 4 GiB and one after it: in a file with a hole, so that no such disk is
// needed.
TEST(ZipWriter, LargeRecords) {
  const std::uint64_t size = (std::uint64_t{1} << 32) + 5;
  const test::TemporaryFolder folder;
  // Pages that nobody writes; large ones, where there are such, as a million small ones take longer
  // to come by than to read.
  const Buffer zeros(Device::cpu, size);
  ::madvise(zeros.data(), size, MADV_HUGEPAGE);
  File file = File::create(folder / "large.zip");
  ZipWriter zip("archive", [&](Bytes bytes) {
    if (bytes.size() >= 1 << 20) {
      if (::lseek(file.descriptor(), static_cast<off_t>(bytes.size()), SEEK_CUR) < 0)
        fail_errno(file.name(), "cannot seek", Exit::io_error);
    } else {
      file.write(bytes);
    }
  });
  zip.add("large", {static_cast<const std::byte*>(zeros.data()), size});
  zip.add("after", "text");
  zip.finish();
  file.close();
  const MappedFile mapped(folder / "large.zip");
  EXPECT_EQ(mapped.bytes().size(), zip.written());
  const ZipReader reader(mapped.bytes(), "large.zip");
  EXPECT_EQ(reader.at("large").size(), size);
  EXPECT_EQ((reader.at("large").data() - mapped.bytes().data()) % 64, 0);
  EXPECT_EQ(as_text(reader.at("after")), "text");
  const std::string descriptor(as_text(mapped.bytes().subspan(
      static_cast<std::size_t>(reader.at("large").data() - mapped.bytes().data()) + size, 24)));
  EXPECT_EQ(u32_at(descriptor, 0), 0x08074B50u);
  EXPECT_EQ(u32_at(descriptor, 8), 5u);
  EXPECT_EQ(u32_at(descriptor, 12), 1u);
}

// --- Hostile archives
// -----------------------------------------------------------------------------

TEST(ZipReader, EveryTruncationIsAnError) {
  for (const char* name : {"torch-1.13-tensor.pt", "deflated.pt"}) {
    const std::string archive = read_file(test::testdata(name));
    for (std::size_t length = 0; length < archive.size(); ++length) {
      const std::string cut = archive.substr(0, length);
      EXPECT_NE(error_of([&] { ZipReader(as_bytes(cut), name); }), "") << name << " " << length;
    }
  }
}

TEST(ZipReader, EveryFlippedBitIsAnErrorOrAnArchive) {
  const std::size_t before = test::peak_memory();
  for (const char* name : {"torch-1.13-tensor.pt", "deflated.pt"}) {
    const std::string archive = read_file(test::testdata(name));
    int errors = 0;
    for (std::size_t bit = 0; bit < archive.size() * 8; ++bit) {
      std::string flipped = archive;
      flipped[bit / 8] ^= static_cast<char>(1 << bit % 8);
      errors += error_of([&] {
                  const ZipReader reader(as_bytes(flipped), name);
                  for (const std::string& record : reader.records()) reader.at(record);
                }) != "";
    }
    EXPECT_GT(errors, 500) << name;
  }
  EXPECT_LT(test::peak_memory() - before, 64u << 20);
}

// An archive with bytes replaced at an offset: a hostile header field.
std::string patched(std::string archive, std::size_t at, const std::string& bytes) {
  return archive.replace(at, bytes.size(), bytes);
}

TEST(ZipReader, HostileFields) {
  const std::string good = read_file(test::testdata("torch-1.13-tensor.pt"));
  // Offsets of the golden dump: the first central entry at 1d2, the zip64 end at 289, the end at
  // 2d5.
  const std::size_t entry = 0x1d2, end64 = 0x289, end = 0x2d5;
  const std::string huge64 = "\xff\xff\xff\xff\xff\xff\xff\x7f", huge32 = "\xff\xff\xff\xff";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {patched(good, end64 + 32, huge64), "entries"},
      {patched(good, end64 + 40, huge64), "zip directory of"},
      {patched(good, end64 + 48, huge64), "zip directory of"},
      {patched(good, end64 + 76 - 12, huge64), "no zip64 end record"},
      {patched(good, end64 + 32, "\2"), "after the last entry"},
      {patched(good, end + 20, "\1"), "cut off"},
      {patched(good, entry + 20, huge32), "expected them before the directory"},
      {patched(good, entry + 24, huge32), "two sizes differ"},
      {patched(good, entry + 28, "\xff\xff"), "longer than the directory"},
      {patched(good, entry + 42, huge32), "no local header"},
      {patched(good, entry + 42, "\1"), "no local header"},
      {patched(good, entry + 8, "\1"), "encrypted"},
      {patched(good, entry + 10, "\14"), "compression method"},
      {patched(good, entry + 10, "\10"), "damaged compressed data"},
      {patched(patched(good, entry + 10, "\10"), entry + 24, huge32), "takes more memory"},
      {patched(good, 0x1a, "\1"), "another name"},
      {patched(good, 0x1e, "A"), "another name"},
      {patched(patched(good, 0x25, "_"), entry + 46 + 7, "_"), "without a folder"},
      {patched(patched(good, 0x1e, "/"), entry + 46, "/"), "without a folder"},
      {patched(patched(good, 0x1e, "A"), entry + 46, "A"), "folder of the first"},
      {zip_of("a", {{"x", "1"}, {"x", "2"}}), "second entry"},
      {patched(good, entry + 20, "\xd7\0\0\0\xd7\0\0\0"s), "byte 230: two records overlap"},
      {zip_of("a", {}), "empty"},
      {good + "x", "cut off"}};
  for (const auto& [archive, expected] : cases)
    EXPECT_NE(error_of([&] { ZipReader(as_bytes(archive), "z"); }).find(expected),
              std::string::npos)
        << expected << ", got " << error_of([&] { ZipReader(as_bytes(archive), "z"); });
}

TEST(ZipReader, CommentAndMissingZip64EndAreFine) {
  std::string archive = read_file(test::testdata("deflated.pt"));  // written without zip64
  archive[archive.size() - 2] = 3;
  EXPECT_EQ(ZipReader(as_bytes(archive + "abc"), "z").root(), "object");
}

}  // namespace
}  // namespace mt
