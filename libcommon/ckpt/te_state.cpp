#include "ckpt/te_state.h"

#include "base/error.h"
#include "ckpt/strided_copy.h"
#include "ckpt/torch_pickles.h"

namespace mt {

using Kind = PyValue::Kind;

static constexpr const char* kRecipes = "transformer_engine.common.recipe";
static constexpr std::size_t kForward = 3, kBackward = 2;  // columns
static constexpr double kMost[] = {448, 57344};            // of E4M3 and E5M2

static bool is_archive(const std::string& state) {
  return state.starts_with("PK") || are_torch_pickles(as_bytes(state));
}

// --- Encoding -----------------------------------------------------------------------------------

static PyValue tensor_of(const std::vector<float>& numbers, const Shape& shape) {
  const ConstTensor tensor(numbers.data(), DType::f32, shape);
  const PyValue storage = PyValue::call(PyValue::global("torch.storage", "_load_from_bytes"),
                                        {PyValue::bytes(write_torch_storage(tensor))});
  std::vector<PyValue> size, strides;
  for (const std::int64_t extent : shape.extents()) size.emplace_back(extent);
  for (const std::int64_t step : row_major_strides(shape)) strides.emplace_back(step);
  return PyValue::call(
      PyValue::global("torch._utils", "_rebuild_tensor_v2"),
      {storage, 0, PyValue::tuple(std::move(size)), PyValue::tuple(std::move(strides)), false,
       PyValue::call(PyValue::global("collections", "OrderedDict"), {})});
}

// Members that are not named keep the class's own values.
static PyValue recipe_of(const DelayedRecipe& recipe, std::size_t length) {
  const PyValue format =
      PyValue::call(PyValue::global("builtins", "getattr"),
                    {PyValue::global(kRecipes, "Format"), recipe.hybrid ? "HYBRID" : "E4M3"});
  return PyValue::make(
      PyValue::global(kRecipes, "DelayedScaling"),
      PyValue::dict({{"margin", recipe.margin},
                     {"fp8_format", format},
                     {"amax_history_len", length},
                     {"amax_compute_algo", recipe.most_recent ? "most_recent" : "max"},
                     {"scaling_factor_compute_algo", PyValue()},
                     {"reduce_amax", true},
                     {"fp8_dpa", false},
                     {"fp8_mha", false}}));
}

std::string encode_te_state(const DelayedRecipe& recipe, const DelayedScales& scales) {
  const std::size_t length = scales.amaxes[0].size() + 1;
  std::vector<float> forward(length * kForward), backward(length * kBackward);
  for (std::size_t i = 0; i + 1 < length; ++i) {
    const std::size_t row = length - 1 - i;
    forward[row * kForward] = scales.amaxes[0][i];
    forward[row * kForward + 1] = scales.amaxes[1][i];
    backward[row * kBackward] = scales.amaxes[2][i];
  }
  const auto rows = static_cast<std::int64_t>(length);
  return write_pickle(PyValue::dict(
      {{"recipe", recipe_of(recipe, length)},
       {"scale_fwd", tensor_of({scales.scales[0], scales.scales[1], 1}, {kForward})},
       {"amax_history_fwd", tensor_of(forward, {rows, kForward})},
       {"scale_bwd", tensor_of({scales.scales[2], 1}, {kBackward})},
       {"amax_history_bwd", tensor_of(backward, {rows, kBackward})},
       {"extra_fp8_variables", PyValue::dict({{"fp8_checkpoint", true},
                                              {"num_gemms", 1},
                                              {"fp8_max_fwd", kMost[0]},
                                              {"fp8_max_bwd", kMost[recipe.hybrid ? 1 : 0]}})}}));
}

// --- Decoding -----------------------------------------------------------------------------------

namespace {

struct Numbers {
  Shape shape;
  std::vector<float> values;
};

Numbers read(const StoredTensor& stored, const std::string& where) {
  if (stored.dtype != DType::f32 || stored.shape.rank() < 1 || stored.shape.rank() > 2)
    fail(Exit::bad_data, where, ": is ", name_of(stored.dtype), ' ', stored.shape,
         ", expected float32 of one or two dimensions");
  Numbers numbers{stored.shape, std::vector<float>(static_cast<std::size_t>(stored.shape.numel()))};
  stored.copy_to(Tensor(numbers.values.data(), DType::f32, stored.shape));
  return numbers;
}

// A tensor of a pickle, whose storage is inside.
Numbers read_inside(const PyValue& value, const std::string& where) {
  if (!value.is_object("torch._utils", "_rebuild_tensor_v2") || value.args().size() != 6 ||
      !value.args()[0].is_object("torch.storage", "_load_from_bytes") ||
      value.args()[0].args().size() != 1)
    fail(Exit::bad_data, where, ": is no tensor with its storage");
  const std::string& file = value.args()[0].args()[0].as_bytes(where);
  const TorchReader storage(as_bytes(file), where);
  std::vector<PyValue> args = value.args();
  args[0] = storage.value();
  return read(storage.tensor(PyValue::call(value.callable(), args)), where);
}

}  // namespace

using ReadTensor = std::function<Numbers(const PyValue&, const std::string&)>;

// The columns of a history, the newest step first.
static std::vector<float> column(const Numbers& history, std::int64_t of) {
  const std::int64_t columns = history.shape[1];
  std::vector<float> steps;
  for (std::int64_t row = history.shape[0] - 1; row > 0; --row)
    steps.push_back(history.values[static_cast<std::size_t>(row * columns + of)]);
  return steps;
}

static std::optional<DelayedScales> scales_in(const PyValue& state, const ReadTensor& tensor,
                                              const std::string& name) {
  if (state.is_none() || state.find("scale_fwd") == nullptr) return std::nullopt;
  const auto numbers = [&](const char* key, int rank, std::size_t columns) {
    const std::string where = concat(name, ": ", key);
    Numbers found = tensor(state.at(key, name), where);
    if (found.shape.rank() != rank || found.shape[0] == 0 ||
        found.shape[rank - 1] != static_cast<std::int64_t>(columns))
      fail(Exit::bad_data, where, ": is ", found.shape, ", expected ", rank == 1 ? "" : "rows of ",
           columns, " numbers, as of one product");
    return found;
  };
  const Numbers forward = numbers("scale_fwd", 1, kForward),
                backward = numbers("scale_bwd", 1, kBackward),
                forward_history = numbers("amax_history_fwd", 2, kForward),
                backward_history = numbers("amax_history_bwd", 2, kBackward);
  if (forward_history.shape[0] != backward_history.shape[0])
    fail(Exit::bad_data, name, ": histories of ", forward_history.shape[0], " and ",
         backward_history.shape[0], " steps");
  return DelayedScales{
      {forward.values[0], forward.values[1], backward.values[0]},
      {column(forward_history, 0), column(forward_history, 1), column(backward_history, 0)}};
}

std::optional<DelayedScales> decode_te_state(const std::string& state, const std::string& name) {
  if (state.empty()) return std::nullopt;
  if (!is_archive(state)) return scales_in(read_pickle(as_bytes(state), name), read_inside, name);
  const TorchReader file(as_bytes(state), name);
  const auto tensor = [&](const PyValue& value, const std::string& where) {
    return read(file.tensor(value), where);
  };
  return scales_in(file.value(), tensor, name);
}

// --- Values -------------------------------------------------------------------------------------

std::string te_state_in(const PyValue& value, const TorchReader& file, const std::string& name) {
  if (value.is_none()) return {};
  if (value.is(Kind::list)) {
    const std::vector<PyValue>& items = value.as_items(name);
    if (items.size() != 1) fail(Exit::bad_data, name, ": ", items.size(), " states, expected one");
    return te_state_in(items[0], file, name);
  }
  if (value.is_object("_io", "BytesIO") && value.state() != nullptr) {
    const std::vector<PyValue>& parts = value.state()->as_items(name);
    if (parts.empty()) fail(Exit::bad_data, name, ": a BytesIO without bytes");
    return parts[0].as_bytes(name);
  }
  const StoredTensor stored = file.tensor(value);
  if (stored.dtype != DType::u8)
    fail(Exit::bad_data, name, ": is ", name_of(stored.dtype), ", expected bytes");
  std::string state(static_cast<std::size_t>(stored.shape.numel()), '\0');
  stored.copy_to(Tensor(state.data(), DType::u8, stored.shape));
  return state;
}

PyValue te_state_value(const std::string& state, const std::function<PyValue(ConstTensor)>& keep) {
  if (state.empty()) return {};
  if (is_archive(state))
    return PyValue::make(PyValue::global("_io", "BytesIO"),
                         PyValue::tuple({PyValue::bytes(state), 0, PyValue()}));
  return keep(ConstTensor(state.data(), DType::u8, {std::ssize(state)}));
}

}  // namespace mt
