// Energon folders: names, braces and fields as Python's braceexpand and Energon itself read them,
// and shards that are damaged anywhere.
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <set>

#include "data/energon/energon_folder.h"
#include "data/energon/energon_reader.h"
#include "data/energon/tar.h"
#include "tests/data/support.h"

namespace mt {
namespace {

namespace fs = std::filesystem;

const std::string kFolders = std::string(MT_TESTDATA) + "/energon";

std::string joined(const std::vector<std::string>& parts) {
  std::string all;
  for (const std::string& part : parts) all += (all.empty() ? "" : " ") + part;
  return all;
}

// What braceexpand 0.1.7 gives.
TEST(Energon, BracesExpandAsPythons) {
  const std::pair<const char*, const char*> cases[] = {
      {"a", "a"},
      {"s_{0..3}.tar", "s_0.tar s_1.tar s_2.tar s_3.tar"},
      {"{08..11}", "08 09 10 11"},
      {"{3..1}", "3 2 1"},
      {"{a,b}{1..2}", "a1 a2 b1 b2"},
      {"x{a,{b,c}d}y", "xay xbdy xcdy"},
      {"{a,}b", "ab b"},
      {"{a}", "{a}"},
      {"{}x", "{}x"},
  };
  for (const auto& [text, all] : cases) EXPECT_EQ(joined(expand_braces(text, "f")), all) << text;
  EXPECT_EQ(code_of([] { expand_braces("a{b", "f"); }), Exit::bad_data);
  EXPECT_EQ(code_of([] { expand_braces("{0..9999999}", "f"); }), Exit::bad_data);
  EXPECT_EQ(code_of([] { expand_braces("{0..999}{0..999}{0..999}", "f"); }), Exit::bad_data);
  EXPECT_EQ(code_of([] { expand_braces(std::string(100, '{'), "f"); }), Exit::bad_data);
  EXPECT_EQ(code_of([] { expand_braces(std::string(4097, 'a'), "f"); }), Exit::bad_data);
  EXPECT_EQ(code_of([] { expand_braces("{{0..600000},{0..600000}}", "f"); }), Exit::bad_data);
}

TEST(Energon, NamesHaveAKeyAndAPart) {
  const auto of = [](std::string_view name) {
    const auto parts = energon_name(name);
    return parts ? concat(parts->key, " ", parts->part) : std::string("none");
  };
  EXPECT_EQ(of("1.jpg"), "1 jpg");
  EXPECT_EQ(of("a.b/1.0.jpg"), "a.b/1 0.jpg");
  EXPECT_EQ(of("a.b/c"), "none");
  EXPECT_EQ(of("README"), "none");
  EXPECT_EQ(of("d/.hidden"), "none");
  EXPECT_EQ(of("__meta__/x.txt"), "none");
  EXPECT_EQ(of("__x.txt"), "__x txt");
}

TEST(Energon, FieldsHavePlaces) {
  const EnergonField field = EnergonField::of("jpg,json[0][a b]", "f");
  ASSERT_EQ(field.places.size(), 2);
  EXPECT_EQ(field.places[0].part, "jpg");
  EXPECT_TRUE(field.places[0].path.empty());
  EXPECT_EQ(field.places[1].part, "json");
  EXPECT_EQ(joined(field.places[1].path), "0 a b");
  for (const char* const wrong : {"json[a", "json[a]b", "jpg,json[a][b"})
    EXPECT_EQ(code_of([&] { EnergonField::of(wrong, "f"); }), Exit::bad_config) << wrong;
}

// All that a reader gives of a folder, and where a shard was damaged.
std::string lines_of(const EnergonFolder& folder) {
  EnergonReader reader(folder, folder.shards());
  std::string all;
  for (EnergonSample sample; reader.next(sample);)
    all += sample.wrong.empty() ? sample.line + "\n" : sample.cut ? "cut\n" : "wrong\n";
  return all;
}

void write(const fs::path& path, std::string_view bytes) {
  File file = File::create(path.string());
  file.write(bytes);
  file.close();
}

// A shard that ends anywhere gives the samples before, and says that it is damaged, or has fewer
// samples than .info.json says; one byte that is another never ends in a crash.
TEST(Energon, DamagedShardsSaySo) {
  const Scratch scratch;
  const fs::path path = scratch.path("f");
  fs::copy(kFolders + "/questions", path, fs::copy_options::recursive);
  const fs::path shard = path / "part_0.tar";
  const EnergonFolder folder(path.string());
  const std::string whole = read_file(shard.string()), all = lines_of(folder);
  const std::size_t content = whole.find_last_not_of('\0') + 1, end = (content + 511) / 512 * 512;
  std::set<std::size_t> behind_members;
  {
    const MappedFile file(shard.string());
    TarReader tar(file);
    for (TarMember member; tar.next(member);) behind_members.insert(tar.offset());
  }
  EXPECT_EQ(*behind_members.rbegin(), end);
  for (std::size_t size = 0; size < end; size += 19) {
    write(shard, whole.substr(0, size));
    const std::string lines = lines_of(folder);
    const bool is_wrong = lines.find("wrong") != lines.npos && behind_members.contains(size);
    EXPECT_TRUE(is_wrong || lines.find("cut") != lines.npos) << size;
  }
  write(shard, whole.substr(0, end));
  EXPECT_EQ(lines_of(folder), all);
  for (std::size_t at = 0; at < end; at += 11) {
    std::string other = whole;
    other[at] = static_cast<char>(other[at] ^ (1 << at % 8));
    write(shard, other);
    lines_of(folder);
  }
}

// Images come as the sample's JSON lists them; a shard with more samples than .info.json says is
// told at its end.
TEST(Energon, CrudeSamplesNameTheirImages) {
  const Scratch scratch;
  const fs::path path = scratch.path("f");
  fs::copy(kFolders + "/crude", path, fs::copy_options::recursive);
  fs::remove(path / "shard.tar");
  AtomicFile file((path / "shard.tar").string(), false);
  TarWriter tar(file);
  for (const char* const key : {"1", "2", "3"}) {
    tar.add(concat(key, ".0.png"), "");
    tar.add(concat(key, ".1.png"), "");
    const std::string other = key == std::string("2") ? "none.png" : concat(key, ".0.png");
    tar.add(concat(key, ".json"), concat(R"({"images":[")", key, R"(.1.png",")", other, R"("]})"));
  }
  tar.finish();
  file.commit();
  EXPECT_EQ(lines_of(EnergonFolder(path.string())), R"({"images": ["1.1.png", "1.0.png"]})"
                                                    "\n"
                                                    R"({"images": ["2.0.png", "2.1.png"]})"
                                                    "\n"
                                                    R"({"images": ["3.1.png", "3.0.png"]})"
                                                    "\ncut\n");
}

TEST(Energon, NumbersOfMoreThanOctalDigits) {
  const Scratch scratch;
  const fs::path path = scratch.path("a.tar");
  {
    AtomicFile file(path.string(), false);
    TarWriter tar(file);
    tar.add("1.txt", "abc");
    tar.finish();
    file.commit();
  }
  std::string bytes = read_file(path.string());
  const auto sum = [&] {
    std::uint64_t all = 8 * ' ';
    for (std::size_t i = 0; i < 512; ++i)
      if (i < 148 || i >= 156) all += static_cast<std::uint8_t>(bytes[i]);
    char digits[8];
    std::snprintf(digits, sizeof digits, "%06o", static_cast<unsigned>(all));
    bytes.replace(148, 7, std::string(digits, 7));
  };
  bytes.replace(124, 12, std::string("\x80\0\0\0\0\0\0\0\0\0\0\x03", 12));  // GNU's form of 3
  sum();
  write(path, bytes);
  {
    const MappedFile file(path.string());
    TarReader tar(file);
    TarMember member;
    ASSERT_TRUE(tar.next(member));
    EXPECT_EQ(member.size, 3);
    EXPECT_EQ(as_text(file.bytes()).substr(member.data, member.size), "abc");
    EXPECT_FALSE(tar.next(member));
    EXPECT_EQ(tar.offset(), 1024);
  }
  bytes.replace(124, 12, std::string("\x80\0\0\0\x7f\xff\xff\xff\xff\xff\xff\xff", 12));
  sum();
  write(path, bytes);
  const MappedFile file(path.string());
  TarReader tar(file);
  TarMember member;
  EXPECT_EQ(code_of([&] { tar.next(member); }), Exit::bad_data);
}

}  // namespace
}  // namespace mt
