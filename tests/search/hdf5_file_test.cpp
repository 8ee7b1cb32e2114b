#include "search/hdf5_file.h"

#include <gtest/gtest.h>

#include "tests/base/scratch.h"

namespace mt {
namespace {

const std::vector<std::uint32_t> kNumbers = {0, 1, 2, 3, 4, 4294967295};

void write(const std::string& path) {
  Hdf5Writer file(path, false);
  file.begin("matrix", {Hdf5Type::u32, 3, 2});
  file.append(std::span(kNumbers).first(4));  // two rows, and one
  file.append(std::span(kNumbers).last(2));
  file.write<std::uint64_t>("list", {Hdf5Type::u64, 1}, std::vector<std::uint64_t>{1ull << 40});
  file.write<std::uint32_t>("none", {Hdf5Type::u32, 0, 4}, {});
  file.write<float>("data", {Hdf5Type::f32, 1, 3}, std::vector<float>{1.5F, -2, 1e-30F});
  file.write<std::uint8_t>("codes", {Hdf5Type::u8, 2, 2}, std::vector<std::uint8_t>{0, 1, 255, 7});
  EXPECT_EQ(file.finish().size(), 32u);
  EXPECT_FALSE(std::filesystem::exists(path));
  file.commit();
}

TEST(Hdf5File, ReadsWhatItWrites) {
  const Scratch folder;
  write(folder.path("a.hdf5"));
  EXPECT_EQ(folder.entries(), 1u);
  const Hdf5Reader file(folder.path("a.hdf5"));
  EXPECT_EQ(file.rows("matrix", Hdf5Type::u32, 2), 3);
  EXPECT_EQ(file.read<std::uint32_t>("matrix", 0, 3), kNumbers);
  EXPECT_EQ(file.read<std::uint32_t>("matrix", 2, 1), (std::vector<std::uint32_t>{4, 4294967295}));
  EXPECT_EQ(file.rows("list", Hdf5Type::u64, 0), 1);
  EXPECT_EQ(file.read<std::uint64_t>("list", 0, 1), std::vector<std::uint64_t>{1ull << 40});
  EXPECT_EQ(file.rows("none", Hdf5Type::u32, 4), 0);
  EXPECT_TRUE(file.read<std::uint32_t>("none", 0, 0).empty());
  EXPECT_EQ(file.rows("data", Hdf5Type::f32, 3), 1);
  EXPECT_EQ(file.read<float>("data", 0, 1), (std::vector<float>{1.5F, -2, 1e-30F}));
  EXPECT_EQ(file.rows("codes", Hdf5Type::u8, 2), 2);
  EXPECT_EQ(file.read<std::uint8_t>("codes", 1, 1), (std::vector<std::uint8_t>{255, 7}));
}

TEST(Hdf5File, TheSameArraysAreTheSameBytes) {
  const Scratch folder;
  write(folder.path("a.hdf5"));
  write(folder.path("b.hdf5"));
  const std::string bytes = read_file(folder.path("a.hdf5"));
  EXPECT_EQ(bytes, read_file(folder.path("b.hdf5")));
  EXPECT_EQ(bytes.substr(0, 9), std::string("\x89HDF\r\n\x1a\n\0", 9));  // version 0, as h5py's
}

TEST(Hdf5File, WhatIsNotCommittedLeavesNothing) {
  const Scratch folder;
  {
    Hdf5Writer file(folder.path("a.hdf5"), false);
    file.begin("matrix", {Hdf5Type::u32, 3, 2});
    file.append(std::span(kNumbers).first(4));
  }
  EXPECT_EQ(folder.entries(), 0u);
  write(folder.path("a.hdf5"));
  EXPECT_EQ(error_of([&] { Hdf5Writer(folder.path("a.hdf5"), false); }).substr(0, 3), "73 ");
}

TEST(Hdf5File, SaysWhatIsNotAsAskedFor) {
  const Scratch folder;
  const std::string path = folder.path("a.hdf5");
  EXPECT_EQ(error_of([&] { Hdf5Reader{path}; }),
            "66 " + path + ": cannot open: No such file or directory");
  write(path);
  const auto rows_of = [&](const char* name, Hdf5Type type, std::int64_t columns) {
    return error_of([&] { Hdf5Reader(path).rows(name, type, columns); });
  };
  EXPECT_EQ(rows_of("other", Hdf5Type::u32, 2), "65 " + path + ": has no array other");
  EXPECT_EQ(rows_of("matrix", Hdf5Type::u64, 2),
            "65 " + path + ": matrix: expected unsigned integers of 64 bits");
  EXPECT_EQ(rows_of("matrix", Hdf5Type::f32, 2),
            "65 " + path + ": matrix: expected real numbers of 32 bits");
  EXPECT_EQ(rows_of("matrix", Hdf5Type::u32, 4),
            "65 " + path + ": matrix: expected two dimensions, rows of 4");
  EXPECT_EQ(rows_of("matrix", Hdf5Type::u32, 0), "65 " + path + ": matrix: expected one dimension");
  EXPECT_EQ(error_of([&] {
              const Hdf5Reader file(path);
              file.rows("matrix", Hdf5Type::u32, 2);
              (void)file.read<std::uint32_t>("matrix", 2, 2);
            }),
            "65 " + path + ": matrix: HDF5 cannot read rows 2 to 4");
  const std::string bytes = read_file(path);
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{8}, std::size_t{100}, bytes.size() - 1}) {
    write_file_atomically(path, bytes.substr(0, size), true);
    EXPECT_EQ(error_of([&] { Hdf5Reader{path}; }),
              "65 " + path + ": no HDF5 file, or a damaged one")
        << size;
  }
}

}  // namespace
}  // namespace mt
