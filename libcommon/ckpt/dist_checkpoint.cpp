#include "ckpt/dist_checkpoint.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "base/error.h"
#include "ckpt/strided_copy.h"
#include "ckpt/torch_types.h"
#include "tensor/buffer.h"

namespace mt {

using Index = std::vector<std::int64_t>;

// --- Reading ------------------------------------------------------------------------------------

DistReader::DistReader(const std::string& folder, HashedReads* reads)
    : folder_(folder), reads_(reads) {
  const std::string index = folder + "/.metadata";
  {
    const MappedFile file(index);
    metadata_ = parse_dist_metadata(file.bytes(), index, Allowance(bytes_in(folder)));
  }
  const auto open = [&](const std::string& key, const ItemPlace& place) {
    const auto [file, fresh] = mapped_.try_emplace(place.file, folder + "/" + place.file);
    const std::uint64_t size = file->second.bytes().size();
    if (place.offset > size || place.length > size - place.offset)
      fail(Exit::bad_data, file->second.path(), ": ", size, " bytes, expected at least ",
           place.offset + place.length, " (", key, "): cut off?");
  };
  for (const auto& [key, place] : metadata_.objects) open(key, place);
  for (const auto& [key, tensor] : metadata_.tensors)
    for (const DistChunk& chunk : tensor.chunks) {
      open(key, chunk.place);
      const std::uint64_t most = chunk.place.length / (tensor.dtype ? size_of(*tensor.dtype) : 1);
      if (tensor.dtype && static_cast<std::uint64_t>(chunk.size.numel()) > most)
        fail(Exit::bad_data, index, ": ", key, ": a chunk of ", chunk.size, " in ",
             chunk.place.length, " bytes");
    }
}

std::vector<std::string> DistReader::files() const {
  std::vector<std::string> names;
  for (const auto& [name, file] : mapped_) names.push_back(name);
  return names;
}

TorchReader DistReader::open_item(const ItemPlace& place, const std::string& key) const {
  const MappedFile& file = mapped_.at(place.file);
  if (reads_ != nullptr) reads_->reach(place.file, place.offset + place.length);
  return {file.bytes().subspan(place.offset, place.length), concat(file.path(), ": ", key)};
}

static std::byte* address(Tensor tensor, const Index& index) {
  const Index strides = row_major_strides(tensor.shape());
  std::int64_t elements = 0;
  for (std::size_t axis = 0; axis < index.size(); ++axis) elements += index[axis] * strides[axis];
  return static_cast<std::byte*>(tensor.data()) +
         elements * static_cast<std::int64_t>(size_of(tensor.dtype()));
}

// What [a, a + a_size) and [b, b + b_size) share: nothing, or where from and how much.
struct Region {
  Index begin, size;
};
static std::optional<Region> intersect(const Shape& a, const Shape& a_size, const Shape& b,
                                       const Shape& b_size) {
  Region shared;
  for (int axis = 0; axis < a.rank(); ++axis) {
    const std::int64_t begin = std::max(a[axis], b[axis]);
    const std::int64_t end = std::min(a[axis] + a_size[axis], b[axis] + b_size[axis]);
    if (begin >= end) return {};
    shared.begin.push_back(begin);
    shared.size.push_back(end - begin);
  }
  return shared;
}

static Index minus(const Index& a, const Shape& b) {
  Index result = a;
  for (std::size_t axis = 0; axis < a.size(); ++axis) result[axis] -= b[static_cast<int>(axis)];
  return result;
}

// The tensor that an item is.
StoredTensor DistReader::chunk_in(const TorchReader& item, const DistTensor& tensor,
                                  const DistChunk& chunk) const {
  StoredTensor stored = item.tensor(item.value());
  if (stored.dtype != *tensor.dtype || !(stored.shape == chunk.size))
    fail(Exit::bad_data, folder_, "/", chunk.place.file, ": ", tensor.key, ": a chunk is ",
         name_of(stored.dtype), stored.shape, ", expected ", tensor.dtype_name, chunk.size);
  return stored;
}

std::optional<MappedTensor> DistReader::view(const std::string& key, const Shape& offset,
                                             const Shape& shape) const {
  const DistTensor& tensor = at(key);
  for (const DistChunk& chunk : tensor.chunks) {
    if (tensor.original_shape || !(chunk.offset == offset && chunk.size == shape)) continue;
    const TorchReader item = open_item(chunk.place, key);
    const StoredTensor stored = chunk_in(item, tensor, chunk);
    const MappedFile& file = mapped_.at(chunk.place.file);
    if (stored.big_endian || !stored.contiguous() || !file.holds(stored.bytes)) return {};
    return MappedTensor{&file, {stored.bytes.data(), stored.dtype, shape}};
  }
  return {};
}

void DistReader::read_region(const DistTensor& tensor, const Shape& offset, Tensor out) const {
  check_region(concat(folder_, ": ", tensor.key), tensor.shape, offset, out);
  for (const DistChunk& chunk : tensor.chunks) {
    const auto shared = intersect(offset, out.shape(), chunk.offset, chunk.size);
    if (!shared) continue;
    const TorchReader item = open_item(chunk.place, tensor.key);
    const StoredTensor stored = chunk_in(item, tensor, chunk);
    const MappedFile& file = mapped_.at(chunk.place.file);
    if (chunk.offset == offset && chunk.size == out.shape()) {  // all that is asked for
      stored.copy_once(file, origin_of(chunk.size.rank()), out);
      continue;
    }
    std::int64_t skipped = 0;  // elements of the chunk before the region
    const Index inside = minus(shared->begin, chunk.offset);
    for (std::size_t axis = 0; axis < inside.size(); ++axis)
      skipped += inside[axis] * stored.strides[axis];
    run({.extents = Shape(shared->size),
         .to = address(out, minus(shared->begin, offset)),
         .to_strides = row_major_strides(out.shape()),
         .from = stored.bytes.data() + skipped * static_cast<std::int64_t>(size_of(stored.dtype)),
         .from_strides = stored.strides,
         .to_dtype = out.dtype(),
         .from_dtype = stored.dtype,
         .swap_bytes = stored.big_endian});
    file.forget(stored.bytes);
  }
}

void DistReader::read(const std::string& key, const Shape& offset, Tensor out) const {
  const DistTensor& tensor = at(key);
  if (*tensor.dtype != out.dtype())
    fail(Exit::bad_data, folder_, ": ", key, ": is ", tensor.dtype_name, ", expected ",
         name_of(out.dtype()));
  read_region(tensor, offset, out);
}

void DistReader::read_as(const std::string& key, const Shape& offset, Tensor out) const {
  const DistTensor& tensor = at(key);
  if (is_float(*tensor.dtype) && is_float(out.dtype())) return read_region(tensor, offset, out);
  read(key, offset, out);
}

// Stored are blocks of a grid, each a row of the last axis: cell c holds the block of the original
// tensor that begins at c * block, flattened.
void DistReader::read_original(const std::string& key, const Shape& offset, Tensor out) const {
  const DistTensor& tensor = at(key);
  if (!tensor.original_shape) return read_as(key, offset, out);
  const Shape& whole = *tensor.original_shape;
  check_region(concat(folder_, ": ", key), whole, offset, out);
  Index grid, block;
  for (int axis = 0; axis < whole.rank(); ++axis) {
    grid.push_back(tensor.shape[axis]);
    block.push_back(whole[axis] / grid.back());
  }
  const Shape block_shape(block);
  const Buffer buffer(Device::cpu,
                      static_cast<std::size_t>(block_shape.numel()) * size_of(*tensor.dtype));
  Shape row = Shape{block_shape.numel()};
  for (std::size_t axis = 0; axis < grid.size(); ++axis) row = row.with_front(1);
  Index cell(grid.size(), 0);
  for (bool more = out.numel() > 0; more;) {
    Index begin = cell, start = cell;
    for (std::size_t axis = 0; axis < cell.size(); ++axis) begin[axis] *= block[axis];
    if (const auto shared = intersect(offset, out.shape(), Shape(begin), block_shape)) {
      start.push_back(0);
      read(key, Shape(start), buffer.tensor(*tensor.dtype, row));
      const Tensor source = buffer.tensor(*tensor.dtype, block_shape);
      run({.extents = Shape(shared->size),
           .to = address(out, minus(shared->begin, offset)),
           .to_strides = row_major_strides(out.shape()),
           .from = address(source, minus(shared->begin, Shape(begin))),
           .from_strides = row_major_strides(block_shape),
           .to_dtype = out.dtype(),
           .from_dtype = *tensor.dtype});
    }
    more = false;
    for (std::size_t axis = cell.size(); axis-- > 0 && !more;) {
      more = ++cell[axis] < grid[axis];
      if (!more) cell[axis] = 0;
    }
  }
}

TorchReader DistReader::open_object(const std::string& key) const {
  const auto found = metadata_.objects.find(key);
  if (found == metadata_.objects.end()) fail(Exit::bad_data, folder_, ": has no object ", key);
  return open_item(found->second, key);
}

// --- Writing ------------------------------------------------------------------------------------

DistWriter::DistWriter(const std::string& folder, int rank, int number, When when)
    : name_(concat("__", rank, "_", number, ".distcp")), when_(when), file_(folder, name_) {}

void DistWriter::write_item(std::size_t item, const Write& write) {
  const std::uint64_t begin = file_.written();
  write([this](Bytes bytes) { file_.write(bytes); });
  items_[item].place = {name_, begin, file_.written() - begin};
}

void DistWriter::add_item(ItemRecord item, Write write) {
  items_.push_back(std::move(item));
  if (when_ == When::at_once)
    write_item(items_.size() - 1, write);
  else
    later_.push_back(std::move(write));
}

void DistWriter::add(const std::string& key, const Shape& global_shape, const Shape& offset,
                     ConstTensor chunk) {
  ItemRecord item{key, true, chunk.dtype(), global_shape, offset, chunk.shape(), {}};
  if (when_ == When::at_once)
    return add_item(std::move(item), [&](const Sink& sink) { write_torch_tensor(chunk, sink); });
  const auto copy = std::make_shared<const Buffer>(Device::cpu, chunk.bytes());
  if (chunk.bytes() > 0) std::memcpy(copy->data(), chunk.data(), chunk.bytes());
  add_item(std::move(item), [copy, dtype = chunk.dtype(), shape = chunk.shape()](const Sink& sink) {
    write_torch_tensor(copy->tensor(dtype, shape), sink);
  });
}

void DistWriter::add(const std::string& key, ConstTensor whole) {
  add(key, whole.shape(), origin_of(whole.shape().rank()), whole);
}

void DistWriter::add_object(const std::string& key, const PyValue& value,
                            const TorchWriter& tensors) {
  add_item({key, false, DType::f32, {}, {}, {}, {}},
           [value, tensors](const Sink& sink) { tensors.write(value, "archive", sink); });
}

WrittenFile DistWriter::close() {
  for (std::size_t item = 0; item < later_.size(); ++item) {
    write_item(item, later_[item]);
    later_[item] = nullptr;  // and its copy
  }
  return {file_.close(), std::move(items_)};
}

FileHash write_dist_metadata(const std::string& folder, const std::vector<WrittenFile>& files,
                             const DistMetadataOptions& options) {
  std::vector<ItemRecord> items;
  for (const WrittenFile& file : files)
    items.insert(items.end(), file.items.begin(), file.items.end());
  const std::string stream = encode_dist_metadata(items, options);
  write_file_atomically(folder + "/.metadata", stream, true);
  return {".metadata", stream.size(), hash_hex(as_bytes(stream))};
}

// --- Between processes --------------------------------------------------------------------------

// Files are [(name, bytes, hash, [(key, is it a tensor, dtype, shapes, offset, length)])].

static PyValue pack_shape(const Shape& shape) {
  return PyValue::tuple({shape.extents().begin(), shape.extents().end()});
}

std::string pack_files(const std::vector<WrittenFile>& files) {
  PyValue packed = PyValue::list();
  for (const WrittenFile& file : files) {
    PyValue items = PyValue::list();
    for (const ItemRecord& item : file.items)
      items.append(PyValue::tuple({item.key, item.is_tensor, static_cast<int>(item.dtype),
                                   pack_shape(item.global_shape), pack_shape(item.offset),
                                   pack_shape(item.size), item.place.offset, item.place.length}));
    packed.append(PyValue::tuple({file.name, file.bytes, file.hash, std::move(items)}));
  }
  return write_pickle(packed);
}

static const std::vector<PyValue>& fields(const PyValue& value, std::size_t count,
                                          const std::string& name) {
  const std::vector<PyValue>& items = value.as_items(name);
  if (items.size() != count) fail(Exit::bad_data, name, ": ", items.size(), " fields");
  return items;
}

std::vector<WrittenFile> unpack_files(Bytes packed, const std::string& name) {
  std::vector<WrittenFile> files;
  const PyValue list = read_pickle(packed, name);
  for (const PyValue& entry : list.as_items(name)) {
    const std::vector<PyValue>& parts = fields(entry, 4, name);
    WrittenFile file;
    file.name = parts[0].as_string(name);
    file.bytes = static_cast<std::uint64_t>(parts[1].as_integer(name));
    file.hash = parts[2].as_string(name);
    for (const PyValue& item : parts[3].as_items(name)) {
      const std::vector<PyValue>& p = fields(item, 8, name);
      const std::int64_t dtype = p[2].as_integer(name);
      if (dtype < 0 || dtype > static_cast<int>(DType::boolean))
        fail(Exit::bad_data, name, ": element type ", dtype);
      file.items.push_back({p[0].as_string(name),
                            p[1].as_bool(name),
                            static_cast<DType>(dtype),
                            shape_of_torch(p[3], name),
                            shape_of_torch(p[4], name),
                            shape_of_torch(p[5], name),
                            {file.name, static_cast<std::uint64_t>(p[6].as_integer(name)),
                             static_cast<std::uint64_t>(p[7].as_integer(name))}});
    }
    files.push_back(std::move(file));
  }
  return files;
}

}  // namespace mt
