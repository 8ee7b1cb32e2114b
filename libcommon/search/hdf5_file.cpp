#include "search/hdf5_file.h"

#include <hdf5.h>
#include <sys/mman.h>

#include <array>
#include <cassert>
#include <new>
#include <utility>

#include "base/error.h"
#include "base/hash.h"

namespace mt {
namespace {

// One of libhdf5's numbers for what is open, and how it is closed.
class Handle {
 public:
  Handle() = default;
  Handle(hid_t id, herr_t (*close_it)(hid_t)) : id_(id), close_(close_it) {}
  Handle(Handle&& other) noexcept : id_(std::exchange(other.id_, -1)), close_(other.close_) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(id_, other.id_);
    std::swap(close_, other.close_);
    return *this;
  }
  ~Handle() { close(); }

  bool close() {  // false: what was written may not all be there
    return id_ < 0 || close_(std::exchange(id_, -1)) >= 0;
  }
  explicit operator bool() const { return id_ >= 0; }
  hid_t id() const { return id_; }

 private:
  hid_t id_ = -1;
  herr_t (*close_)(hid_t) = nullptr;
};

// Before a file is opened.  Errors are told by who calls, and not on stderr as well; and there is
// room for what an open file takes, without which libhdf5 would crash.
void prepare() {
  constexpr std::size_t kRoom = 16 << 20;
  void* const room =
      ::mmap(nullptr, kRoom, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (room == MAP_FAILED) throw std::bad_alloc();
  ::munmap(room, kRoom);
  ::H5open();
  ::H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
}

// Access to files without locks: AtomicFile has its own, and readers never change any.
Handle access() {
  Handle list(::H5Pcreate(H5P_FILE_ACCESS), ::H5Pclose);
  ::H5Pset_file_locking(list.id(), false, true);
  return list;
}

hid_t stored(Hdf5Type type) {
  switch (type) {
    case Hdf5Type::u8:
      return H5T_STD_U8LE;
    case Hdf5Type::u32:
      return H5T_STD_U32LE;
    case Hdf5Type::u64:
      return H5T_STD_U64LE;
    case Hdf5Type::i64:
      return H5T_STD_I64LE;
    case Hdf5Type::f32:
      break;
  }
  return H5T_IEEE_F32LE;
}

const char* name_of(Hdf5Type type) {
  switch (type) {
    case Hdf5Type::u8:
      return "unsigned integers of 8 bits";
    case Hdf5Type::u32:
      return "unsigned integers of 32 bits";
    case Hdf5Type::u64:
      return "unsigned integers of 64 bits";
    case Hdf5Type::i64:
      return "signed integers of 64 bits";
    case Hdf5Type::f32:
      break;
  }
  return "real numbers of 32 bits";
}

template <class T>
hid_t in_memory() {
  switch (kHdf5Type<T>) {
    case Hdf5Type::u8:
      return H5T_NATIVE_UINT8;
    case Hdf5Type::u32:
      return H5T_NATIVE_UINT32;
    case Hdf5Type::u64:
      return H5T_NATIVE_UINT64;
    case Hdf5Type::i64:
      return H5T_NATIVE_INT64;
    case Hdf5Type::f32:
      break;
  }
  return H5T_NATIVE_FLOAT;
}

// Whether an array's own type is this one, but for the order of its bytes.
bool is_type(hid_t kind, Hdf5Type type) {
  if (::H5Tget_size(kind) != ::H5Tget_size(stored(type))) return false;
  if (type == Hdf5Type::f32) return ::H5Tget_class(kind) == H5T_FLOAT;
  return ::H5Tget_class(kind) == H5T_INTEGER &&
         ::H5Tget_sign(kind) == (type == Hdf5Type::i64 ? H5T_SGN_2 : H5T_SGN_NONE);
}

struct Sizes {
  std::array<hsize_t, 2> dims;
  int rank;
};
Sizes sizes_of(const Hdf5Array& array) {
  return {{static_cast<hsize_t>(array.rows), static_cast<hsize_t>(array.columns)},
          array.columns == 0 ? 1 : 2};
}

// Selects rows of an array's space, and makes the space that they have in memory.
Handle select(hid_t space, std::int64_t begin, std::int64_t count, std::int64_t columns) {
  const Sizes sizes = sizes_of({.rows = count, .columns = columns});
  const std::array<hsize_t, 2> start = {static_cast<hsize_t>(begin), 0};
  ::H5Sselect_hyperslab(space, H5S_SELECT_SET, start.data(), nullptr, sizes.dims.data(), nullptr);
  return {::H5Screate_simple(sizes.rank, sizes.dims.data(), nullptr), ::H5Sclose};
}

}  // namespace

// --- Writing -------------------------------------------------------------------------------------

struct Hdf5Writer::State {
  Handle file, dataset, space;
  std::string name;
  Hdf5Array array;
  std::int64_t written = 0;  // rows
};

Hdf5Writer::Hdf5Writer(const std::string& path, bool overwrite)
    : file_(path, overwrite), state_(std::make_unique<State>()) {
  prepare();
  state_->file = {
      ::H5Fcreate(file_.temporary_path().c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access().id()),
      ::H5Fclose};
  if (!state_->file) fail(Exit::io_error, path, ": HDF5 cannot make it; is the disk full?");
}

Hdf5Writer::~Hdf5Writer() = default;

void Hdf5Writer::begin(const std::string& name, const Hdf5Array& array) {
  end_array();
  State& s = *state_;
  const Sizes sizes = sizes_of(array);
  s.name = name;
  s.array = array;
  s.written = 0;
  s.space = {::H5Screate_simple(sizes.rank, sizes.dims.data(), nullptr), ::H5Sclose};
  Handle creation(::H5Pcreate(H5P_DATASET_CREATE), ::H5Pclose);
  ::H5Pset_obj_track_times(creation.id(), false);  // the same arrays are the same bytes
  s.dataset = {::H5Dcreate2(s.file.id(), name.c_str(), stored(array.type), s.space.id(),
                            H5P_DEFAULT, creation.id(), H5P_DEFAULT),
               ::H5Dclose};
  if (!s.dataset) fail(Exit::io_error, file_.path(), ": ", name, ": HDF5 cannot write it");
}

template <Hdf5Number T>
void Hdf5Writer::append(std::span<const T> numbers) {
  State& s = *state_;
  const std::int64_t rows = std::ssize(numbers) / s.array.row_size();
  assert(kHdf5Type<T> == s.array.type && rows * s.array.row_size() == std::ssize(numbers) &&
         rows <= s.array.rows - s.written);
  if (rows == 0) return;
  const Handle memory = select(s.space.id(), s.written, rows, s.array.columns);
  if (::H5Dwrite(s.dataset.id(), in_memory<T>(), memory.id(), s.space.id(), H5P_DEFAULT,
                 numbers.data()) < 0)
    fail(Exit::io_error, file_.path(), ": ", s.name, ": HDF5 cannot write it; is the disk full?");
  s.written += rows;
}
template void Hdf5Writer::append(std::span<const float>);
template void Hdf5Writer::append(std::span<const std::uint8_t>);
template void Hdf5Writer::append(std::span<const std::uint32_t>);
template void Hdf5Writer::append(std::span<const std::uint64_t>);
template void Hdf5Writer::append(std::span<const std::int64_t>);

void Hdf5Writer::end_array() {
  State& s = *state_;
  assert(s.written == s.array.rows);
  s.space.close();
  if (!s.dataset.close())
    fail(Exit::io_error, file_.path(), ": ", s.name, ": HDF5 cannot write it; is the disk full?");
}

std::string Hdf5Writer::finish() {
  end_array();
  if (!state_->file.close())
    fail(Exit::io_error, file_.path(), ": HDF5 cannot write it; is the disk full?");
  return hash_file(file_.temporary_path());
}

void Hdf5Writer::commit() { file_.commit(); }

// --- Reading -------------------------------------------------------------------------------------

struct Hdf5Reader::State {
  Handle file;
};

Hdf5Reader::Hdf5Reader(const std::string& path) : path_(path), state_(std::make_unique<State>()) {
  File::open_regular(path);  // says what is wrong with the path
  prepare();
  state_->file = {::H5Fopen(path.c_str(), H5F_ACC_RDONLY, access().id()), ::H5Fclose};
  if (!state_->file) fail(Exit::bad_data, path, ": no HDF5 file, or a damaged one");
}

Hdf5Reader::~Hdf5Reader() = default;

static Handle open_array(const std::string& path, hid_t file, const std::string& name) {
  Handle dataset(::H5Dopen2(file, name.c_str(), H5P_DEFAULT), ::H5Dclose);
  if (!dataset) fail(Exit::bad_data, path, ": has no array ", name);
  return dataset;
}

std::int64_t Hdf5Reader::rows(const std::string& name, Hdf5Type type, std::int64_t columns) const {
  const Handle dataset = open_array(path_, state_->file.id(), name);
  const Handle kind(::H5Dget_type(dataset.id()), ::H5Tclose);
  if (!kind || !is_type(kind.id(), type))
    fail(Exit::bad_data, path_, ": ", name, ": expected ", name_of(type));
  const Handle space(::H5Dget_space(dataset.id()), ::H5Sclose);
  Sizes sizes = {{0, 0}, space ? ::H5Sget_simple_extent_ndims(space.id()) : -1};
  if (sizes.rank == 1 || sizes.rank == 2)
    ::H5Sget_simple_extent_dims(space.id(), sizes.dims.data(), nullptr);
  const auto found = static_cast<std::int64_t>(sizes.dims[0]);
  if (sizes.rank == 1 && found == 0) return 0;  // numpy's array of an empty list
  if (sizes.rank != (columns == 0 ? 1 : 2) || static_cast<std::int64_t>(sizes.dims[1]) != columns)
    fail(Exit::bad_data, path_, ": ", name, ": expected ",
         columns == 0 ? std::string("one dimension") : concat("two dimensions, rows of ", columns));
  return found;
}

std::int64_t Hdf5Reader::columns(const std::string& name) const {
  const Handle dataset = open_array(path_, state_->file.id(), name);
  const Handle space(::H5Dget_space(dataset.id()), ::H5Sclose);
  Sizes sizes = {{0, 0}, space ? ::H5Sget_simple_extent_ndims(space.id()) : -1};
  if (sizes.rank != 2) return 0;
  ::H5Sget_simple_extent_dims(space.id(), sizes.dims.data(), nullptr);
  return static_cast<std::int64_t>(sizes.dims[1]);
}

template <Hdf5Number T>
std::vector<T> Hdf5Reader::read(const std::string& name, std::int64_t begin,
                                std::int64_t count) const {
  if (count == 0) return {};
  const Handle dataset = open_array(path_, state_->file.id(), name);
  const Handle space(::H5Dget_space(dataset.id()), ::H5Sclose);
  const bool matrix = ::H5Sget_simple_extent_ndims(space.id()) == 2;
  Sizes sizes = {{0, 0}, 0};
  ::H5Sget_simple_extent_dims(space.id(), sizes.dims.data(), nullptr);
  const auto columns = matrix ? static_cast<std::int64_t>(sizes.dims[1]) : 0;
  std::vector<T> numbers(static_cast<std::size_t>(count * std::max<std::int64_t>(columns, 1)));
  const Handle memory = select(space.id(), begin, count, columns);
  if (::H5Dread(dataset.id(), in_memory<T>(), memory.id(), space.id(), H5P_DEFAULT,
                numbers.data()) < 0)
    fail(Exit::bad_data, path_, ": ", name, ": HDF5 cannot read rows ", begin, " to ",
         begin + count);
  return numbers;
}
template std::vector<float> Hdf5Reader::read(const std::string&, std::int64_t, std::int64_t) const;
template std::vector<std::uint8_t> Hdf5Reader::read(const std::string&, std::int64_t,
                                                    std::int64_t) const;
template std::vector<std::uint32_t> Hdf5Reader::read(const std::string&, std::int64_t,
                                                     std::int64_t) const;
template std::vector<std::uint64_t> Hdf5Reader::read(const std::string&, std::int64_t,
                                                     std::int64_t) const;
template std::vector<std::int64_t> Hdf5Reader::read(const std::string&, std::int64_t,
                                                    std::int64_t) const;

}  // namespace mt
