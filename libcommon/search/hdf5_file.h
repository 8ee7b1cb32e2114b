// Hdf5Writer and Hdf5Reader: arrays of numbers in an HDF5 file, as Retro's projects keep chunks:
// each is a dataset of the file's root with a name, numbers in little-endian order, its rows
// one behind the other, uncompressed.  h5py makes and reads the same.
//
//   Hdf5Writer file("db.hdf5", false);
//   file.begin("chunks", {.type = Hdf5Type::u32, .rows = 3, .columns = 5});
//   file.append(std::span<const std::uint32_t>(...));  // until all rows are there
//   file.finish();
//   file.commit();
//
// Through libhdf5 (hdf5_library.cpp), which holds whatever it needs to know in one place: for one
// thread at a time.  Exit::unavailable where there is none.
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"

namespace mt {

enum class Hdf5Type { u8, u32, u64, i64, f32 };
template <class T>
concept Hdf5Number = std::same_as<T, std::uint8_t> || std::same_as<T, std::uint32_t> ||
    std::same_as<T, std::uint64_t> || std::same_as<T, std::int64_t> || std::same_as<T, float>;
template <Hdf5Number T>
constexpr Hdf5Type kHdf5Type = std::same_as<T, float>           ? Hdf5Type::f32
                               : std::same_as<T, std::uint8_t>  ? Hdf5Type::u8
                               : std::same_as<T, std::uint32_t> ? Hdf5Type::u32
                               : std::same_as<T, std::uint64_t> ? Hdf5Type::u64
                                                                : Hdf5Type::i64;

struct Hdf5Array {
  Hdf5Type type = Hdf5Type::u32;
  std::int64_t rows = 0, columns = 0;  // 0 columns: it has one dimension

  std::int64_t row_size() const { return columns == 0 ? 1 : columns; }
  bool operator==(const Hdf5Array&) const = default;
};

// A file that appears under its name, whole, when commit() returns.  The same arrays are the same
// bytes.
class Hdf5Writer {
 public:
  Hdf5Writer(const std::string& path, bool overwrite);
  ~Hdf5Writer();

  // The next array; the one before has all its rows.
  void begin(const std::string& name, const Hdf5Array& array);
  template <Hdf5Number T>
  void append(std::span<const T> numbers);  // whole rows of the array that began last
  // An array at once.
  template <Hdf5Number T>
  void write(const std::string& name, const Hdf5Array& array, std::span<const T> numbers) {
    begin(name, array);
    append(numbers);
  }
  std::string finish();  // all is written; the hash of the file's bytes (base/hash.h)
  void commit();         // after finish()

 private:
  void end_array();

  struct State;
  AtomicFile file_;
  std::unique_ptr<State> state_;
};

// A file opened for reading.  What is not as asked for is Exit::bad_data with the file and the
// array.
class Hdf5Reader {
 public:
  explicit Hdf5Reader(const std::string& path);
  ~Hdf5Reader();

  // The array's sizes; it must have this type, and so many columns.
  std::int64_t rows(const std::string& name, Hdf5Type type, std::int64_t columns) const;
  // How many columns a row has; 0: the array has one dimension.
  std::int64_t columns(const std::string& name) const;
  // Rows [begin, begin + count) of an array that rows() has seen.
  template <Hdf5Number T>
  std::vector<T> read(const std::string& name, std::int64_t begin, std::int64_t count) const;

 private:
  struct State;
  std::string path_;
  std::unique_ptr<State> state_;
};

}  // namespace mt
