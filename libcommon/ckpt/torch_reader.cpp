#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "ckpt/strided_copy.h"
#include "ckpt/torch_file.h"
#include "ckpt/torch_pickles.h"
#include "ckpt/torch_types.h"

namespace mt {

using Kind = PyValue::Kind;

bool StoredTensor::contiguous() const { return strides == row_major_strides(shape); }

void StoredTensor::copy_to(Tensor out) const {
  if (out.dtype() != dtype || !(out.shape() == shape))
    fail(Exit::internal, "a stored ", name_of(dtype), shape, " is copied to ", name_of(out.dtype()),
         out.shape());
  run({.extents = shape,
       .to = static_cast<std::byte*>(out.data()),
       .to_strides = row_major_strides(shape),
       .from = bytes.data(),
       .from_strides = strides,
       .to_dtype = dtype,
       .from_dtype = dtype,
       .swap_bytes = big_endian});
}

void StoredTensor::copy_to(const Shape& offset, Tensor out) const {
  if (out.numel() == 0) return;  // bytes may be null
  std::int64_t skipped = 0;
  for (int axis = 0; axis < offset.rank(); ++axis)
    skipped += offset[axis] * strides[static_cast<std::size_t>(axis)];
  run({.extents = out.shape(),
       .to = static_cast<std::byte*>(out.data()),
       .to_strides = row_major_strides(out.shape()),
       .from = bytes.data() + skipped * static_cast<std::int64_t>(size_of(dtype)),
       .from_strides = strides,
       .to_dtype = out.dtype(),
       .from_dtype = dtype,
       .swap_bytes = big_endian});
}

void StoredTensor::copy_once(const MappedFile& file, const Shape& offset, Tensor out) const {
  constexpr std::size_t kBlock = 4 << 20;
  if (!contiguous() || big_endian || out.dtype() != dtype || !(out.shape() == shape)) {
    copy_to(offset, out);
    return file.forget(bytes);
  }
  for (std::size_t at = 0; at < bytes.size(); at += kBlock) {
    const Bytes block = bytes.subspan(at, std::min(kBlock, bytes.size() - at));
    std::memcpy(static_cast<std::byte*>(out.data()) + at, block.data(), block.size());
    file.forget(block);
  }
}

StoredTensor dense(DType dtype, const Shape& shape, Bytes bytes) {
  return {dtype, shape, row_major_strides(shape), bytes};
}

TorchReader::TorchReader(Bytes file, std::string name)
    : name_(std::move(name)), allowance_(file.size()) {
  if (are_torch_pickles(file)) {
    TorchPickles pickles = read_torch_pickles(file, name_, allowance_);
    value_ = std::move(pickles.value);
    storages_ = std::move(pickles.storages);
    return;
  }
  zip_.emplace(file, name_, allowance_);
  const Bytes* version = zip_->find("version");
  if (version == nullptr) version = zip_->find(".data/version");
  if (version == nullptr) fail(Exit::bad_data, name_, ": the archive has no record version");
  std::string_view digits = as_text(*version);
  while (digits.ends_with('\n')) digits.remove_suffix(1);
  if (digits.empty() || digits.size() > 2 ||
      digits.find_first_not_of("0123456789") != std::string_view::npos ||
      std::stoi(std::string(digits)) < 1 || std::stoi(std::string(digits)) > 10)
    fail(Exit::bad_data, name_, ": record version is not a number from 1 to 10");
  if (const Bytes* order = zip_->find("byteorder")) {
    big_endian_ = as_text(*order) == "big";
    if (!big_endian_ && as_text(*order) != "little")
      fail(Exit::bad_data, name_, ": record byteorder is neither little nor big");
  }
  value_ = read_pickle(zip_->at("data.pkl"), name_ + ": data.pkl", allowance_);
}

// The call that rebuilds a plain tensor: inside a parameter's or a subclass's, or the value itself.
static std::optional<PyValue> plain_tensor(const PyValue& value) {
  if (!value.is(Kind::object)) return {};
  const std::vector<PyValue>& args = value.args();
  if (value.is_object("torch._tensor", "_rebuild_from_type_v2") && args.size() >= 3 &&
      args[2].is(Kind::tuple))
    return plain_tensor(PyValue::call(args[0], args[2].as_items("")));
  if (value.module() != "torch._utils") return {};
  if ((value.name() == "_rebuild_parameter" || value.name() == "_rebuild_parameter_with_state") &&
      !args.empty())
    return plain_tensor(args[0]);
  if (value.name() == "_rebuild_tensor_v2" || value.name() == "_rebuild_tensor_v3") return value;
  return {};
}

bool TorchReader::is_tensor(const PyValue& value) { return plain_tensor(value).has_value(); }

TorchReader::Storage TorchReader::storage(const PyValue& value) const {
  const std::string where = name_ + ": storage";
  if (!value.is(Kind::persistent))
    fail(Exit::bad_data, where, ": is ", name_of(value.kind()), ", expected a persistent id");
  const std::vector<PyValue>& id = value.persistent_id().as_items(where);
  if (id.size() != (zip_ ? 5 : 6) || !id[1].is(Kind::global) || !(id[0] == PyValue("storage")))
    fail(Exit::bad_data, where, ": expected ('storage', class, key, location, numel)");
  const std::string& key = id[2].as_string(where);
  if (zip_) return {zip_->at("data/" + key), id[1].name(), id[4].as_integer(where)};
  const auto found = storages_.find(key);
  if (found == storages_.end()) fail(Exit::bad_data, where, ": there is none of key ", key);
  return {found->second, id[1].name(), id[4].as_integer(where)};
}

static DType element_type(const std::vector<PyValue>& args, bool typed, std::string_view storage,
                          const std::string& where) {
  if (typed) {  // _rebuild_tensor_v3 names it
    if (const std::optional<DType> dtype = dtype_of_torch(args.at(6))) return *dtype;
    fail(Exit::bad_data, where, ": elements of type ", args[6].name(), " are not supported");
  }
  for (const StorageClass& known : kStorageClasses)
    if (known.name == storage) return known.dtype;
  fail(Exit::bad_data, where, ": a ", storage, " is not supported");
}

StoredTensor TorchReader::tensor(const PyValue& value) const {
  const std::string where = name_ + ": tensor";
  const std::optional<PyValue> plain = plain_tensor(value);
  if (!plain) fail(Exit::bad_data, where, ": is ", name_of(value.kind()), ", expected a tensor");
  const bool typed = plain->name() == "_rebuild_tensor_v3";
  const std::vector<PyValue>& args = plain->args();
  if (args.size() < (typed ? 7u : 6u)) fail(Exit::bad_data, where, ": ", args.size(), " arguments");
  if (args.size() > (typed ? 7u : 6u)) {
    const PyValue& flags = args.back();  // conjugated, negated
    if (!flags.is_none() && !flags.entries(where).empty())
      fail(Exit::bad_data, where, ": has metadata, expected a plain tensor");
  }
  const Storage storage = this->storage(args[0]);
  StoredTensor result;
  result.big_endian = big_endian_;
  result.dtype = element_type(args, typed, storage.type, where);
  result.shape = shape_of_torch(args[2], where);
  const auto element = static_cast<std::int64_t>(size_of(result.dtype));
  const auto held = static_cast<std::int64_t>(storage.bytes.size()) / element;
  const std::int64_t declared = typed ? storage.numel / element : storage.numel;
  if (declared < 0 || declared > held)
    fail(Exit::bad_data, where, ": a storage of ", declared, " elements in a record of ",
         storage.bytes.size(), " bytes");

  const std::vector<PyValue>& strides = args[3].as_items(where);
  if (strides.size() != static_cast<std::size_t>(result.shape.rank()))
    fail(Exit::bad_data, where, ": ", strides.size(), " strides for ", result.shape.rank(),
         " axes");
  const std::int64_t first = args[1].as_integer(where);
  std::int64_t last = first;
  bool fits = first >= 0;
  for (int axis = 0; axis < result.shape.rank(); ++axis) {
    const std::int64_t stride = strides[static_cast<std::size_t>(axis)].as_integer(where);
    std::int64_t reach = 0;
    const std::int64_t steps = std::max<std::int64_t>(result.shape[axis] - 1, 0);
    fits = fits && stride >= 0 && !__builtin_mul_overflow(stride, steps, &reach) &&
           !__builtin_add_overflow(last, reach, &last);
    result.strides.push_back(stride);
  }
  const std::vector<std::int64_t> dense = row_major_strides(result.shape);
  for (int axis = 0; axis < result.shape.rank();
       ++axis)  // a stride that is never used is the dense one
    if (result.shape[axis] <= 1 || result.shape.numel() == 0)
      result.strides[static_cast<std::size_t>(axis)] = dense[static_cast<std::size_t>(axis)];
  fits = fits && result.shape.numel() <= declared;  // none is there several times, by a stride of 0
  if (!fits || (result.shape.numel() > 0 && last >= declared))
    fail(Exit::bad_data, where, ": ", result.shape, " from element ", first,
         " on does not fit its storage of ", declared);
  if (result.shape.numel() > 0)
    result.bytes = storage.bytes.subspan(static_cast<std::size_t>(first * element),
                                         static_cast<std::size_t>((last - first + 1) * element));
  return result;
}

}  // namespace mt
