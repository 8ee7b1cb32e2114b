#include "formats/inspect.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iomanip>
#include <set>
#include <sstream>

#include "base/progress.h"
#include "ckpt/gguf.h"
#include "ckpt/tensor_numbers.h"
#include "formats/inspected.h"
#include "model/config/megatron_args.h"
#include "model/config/model_config.h"
#include "model/keys.h"
#include "model/model_table.h"

namespace mt {

static std::string number_text(double number) { return JsonWriter().value(number).text(); }

// --- ls -----------------------------------------------------------------------------------------

static std::string tensor_json(const DistTensor& tensor) {
  JsonWriter json;
  json.begin_object().member("schema", inspected::kSchema).member("tensor", tensor.key);
  json.member("dtype", tensor.dtype_name).key("shape");
  inspected::write_extents(json, tensor.own_shape());
  if (tensor.original_shape) inspected::write_extents(json.key("stored_shape"), tensor.shape);
  json.key("parts").begin_array();
  for (const DistChunk& chunk : tensor.chunks) {
    inspected::write_extents(json.begin_object().key("offset"), chunk.offset);
    inspected::write_extents(json.key("shape"), chunk.size);
    json.member("file", chunk.place.file).member("begin", chunk.place.offset);
    json.member("bytes", chunk.place.length).end_object();
  }
  return json.end_array().end_object().text();
}

static std::string tensor_text(const DistTensor& tensor, std::size_t width) {
  std::set<std::string> files;
  for (const DistChunk& chunk : tensor.chunks) files.insert(chunk.place.file);
  std::ostringstream line;
  line << std::left << std::setw(static_cast<int>(width)) << tensor.key << "  " << std::setw(8)
       << tensor.dtype_name << "  " << tensor.own_shape();
  if (tensor.chunks.size() > 1) line << "  " << tensor.chunks.size() << " parts";
  for (const std::string& file : files) line << (file == *files.begin() ? "  " : ", ") << file;
  return std::move(line).str();
}

// A plain value as JSON; of others what they are.
static void write_value(JsonWriter& json, const PyValue& value) {
  using Kind = PyValue::Kind;
  switch (value.kind()) {
    case Kind::none:
      json.null();
      return;
    case Kind::boolean:
      json.value(value.as_bool(""));
      return;
    case Kind::integer:
      json.value(value.as_integer(""));
      return;
    case Kind::real:
      json.value(value.as_real(""));
      return;
    case Kind::string:
      json.value(value.as_string(""));
      return;
    case Kind::list:
    case Kind::tuple:
      json.begin_array();
      for (const PyValue& item : value.as_items("")) write_value(json, item);
      json.end_array();
      return;
    case Kind::global:
      json.value(concat(value.module(), ".", value.name()));
      return;
    default:
      json.value(name_of(value.kind()));
  }
}

static void list_gguf_settings(const InspectOptions& options, const GgufReader& file,
                               const PrintLine& print) {
  JsonWriter object;
  object.begin_object().member("schema", inspected::kSchema).key("settings").begin_object();
  for (const auto& [name, value] : file.values()) {
    object.key(name).raw(value.json());
    if (!options.json) print(concat(name, "  ", value.json()));
  }
  if (options.json) print(object.end_object().end_object().text());
}

static void list_settings(const InspectOptions& options, const PrintLine& print) {
  if (!inspected::is_model(options.path)) {
    const std::unique_ptr<TensorSource> tensors = inspected::tensors_in(options.path);
    if (const auto* gguf = dynamic_cast<const GgufReader*>(tensors.get()))
      return list_gguf_settings(options, *gguf, print);
  }
  const std::unique_ptr<ModelSource> source = open_model(options.path, inspected::kWhileReading);
  PyValue args = PyValue::dict();
  add_model_args(source->config(), source->dtype(), args);
  const PyValue common = source->common();
  if (common.is(PyValue::Kind::dict)) args = common.at("args", source->path());
  const std::vector<PyValue>& entries = args.entries(source->path());
  JsonWriter object;
  object.begin_object().member("schema", inspected::kSchema).key("settings").begin_object();
  for (std::size_t i = 0; i + 1 < entries.size(); i += 2) {
    const std::string& name = entries[i].as_string(source->path());
    write_value(object.key(name), entries[i + 1]);
    JsonWriter value;
    write_value(value, entries[i + 1]);
    if (!options.json) print(concat(name, "  ", value.text()));
  }
  if (options.json) print(object.end_object().end_object().text());
}

void list_tensors(const InspectOptions& options, bool settings, const PrintLine& print) {
  if (settings) return list_settings(options, print);
  const std::unique_ptr<TensorSource> source = inspected::tensors_in(options.path);
  std::size_t width = 0;
  for (const auto& [key, tensor] : source->tensors()) width = std::max(width, key.size());
  for (const auto& [key, tensor] : source->tensors())
    print(options.json ? tensor_json(tensor) : tensor_text(tensor, width));
}

// --- cat ----------------------------------------------------------------------------------------

static void print_values(const TensorSource& source, const DistTensor& tensor,
                         const PrintLine& print) {
  const Shape& shape = tensor.own_shape();
  const std::int64_t width = shape.rank() == 0 ? 1 : shape[-1];
  std::vector<double> numbers;
  for_each_block(shape, width, [&](const Shape& offset, const Shape& block) {
    const Buffer buffer(Device::cpu,
                        static_cast<std::size_t>(block.numel()) * size_of(*tensor.dtype));
    const Tensor values = buffer.tensor(*tensor.dtype, block);
    source.read_original(tensor.key, offset, values);
    to_doubles(values, numbers);
    std::string line;
    for (const double number : numbers)
      line += concat(line.empty() ? "" : " ",
                     std::isfinite(number) ? number_text(number) : std::to_string(number));
    print(line);
  });
}

static void print_histogram(const TensorNumbers& numbers, const std::vector<std::int64_t>& counts,
                            const PrintLine& print) {
  constexpr std::int64_t kWidest = 50;
  const std::int64_t largest = *std::max_element(counts.begin(), counts.end());
  const double width = (numbers.most - numbers.least) / static_cast<double>(counts.size());
  for (std::size_t bin = 0; bin < counts.size(); ++bin) {
    char edge[32];
    std::snprintf(edge, sizeof edge, "%12.5g", numbers.least + static_cast<double>(bin) * width);
    const std::int64_t length = (counts[bin] * kWidest + largest - 1) / largest;
    print(concat(edge, "  ", counts[bin], std::string(length > 0 ? 2 : 0, ' '),
                 std::string(static_cast<std::size_t>(length), '#')));
  }
}

void print_tensor(const InspectOptions& options, const std::string& key, bool values,
                  const PrintLine& print) {
  constexpr std::size_t kBins = 16;
  const std::unique_ptr<TensorSource> source = inspected::tensors_in(options.path);
  const DistTensor& tensor = source->at(key);
  if (values) return print_values(*source, tensor, print);
  const TensorNumbers numbers = numbers_of(*source, key);
  const bool any = numbers.finite() > 0;
  const std::vector<std::int64_t> counts =
      any ? histogram_of(*source, key, numbers, kBins) : std::vector<std::int64_t>();
  if (options.json) {
    JsonWriter json;
    json.begin_object().member("schema", inspected::kSchema).member("tensor", key);
    inspected::write_extents(json.member("dtype", tensor.dtype_name).key("shape"),
                             tensor.own_shape());
    numbers.write(json);
    json.key("histogram").begin_array();
    for (const std::int64_t count : counts) json.value(count);
    return print(json.end_array().end_object().text());
  }
  print(concat(key, "  ", tensor.dtype_name, ' ', tensor.own_shape()));
  print(concat("elements ", numbers.count, "  zeros ", numbers.zeros, "  NaNs ", numbers.nans,
               "  infinities ", numbers.infinities));
  if (!any) return;
  print(concat("least ", number_text(numbers.least), "  most ", number_text(numbers.most),
               "  mean ", number_text(numbers.mean()), "  rms ", number_text(numbers.rms())));
  print_histogram(numbers, counts, print);
}

// --- verify -------------------------------------------------------------------------------------

static std::uint64_t bytes_of(const Shape& shape, DType dtype) {
  return static_cast<std::uint64_t>(shape.numel()) * size_of(dtype);
}

bool verify_checkpoint(const InspectOptions& options, const PrintLine& print, const Log& log) {
  const std::unique_ptr<TensorSource> tensors = inspected::tensors_in(options.path);
  const bool model = inspected::is_model(options.path);
  std::int64_t rows = 0, without_states = 0;
  bool finite = true, gaps = false;
  std::uint64_t elements = 0, bytes = 0;
  for (const auto& [key, tensor] : tensors->tensors())
    bytes += tensor.dtype ? bytes_of(tensor.own_shape(), *tensor.dtype) : 0;
  Progress progress(log, "verifying", "bytes", bytes);
  const auto check = [&](const std::string& name, const TensorNumbers& numbers) {
    elements += static_cast<std::uint64_t>(numbers.count);
    if (numbers.finite() == numbers.count) return;
    finite = false;
    log.draw();
    if (!options.json)
      print(concat(name, "  NaNs ", numbers.nans, "  infinities ", numbers.infinities, "  of ",
                   numbers.count));
  };
  if (model) {
    const std::unique_ptr<ModelSource> source = inspected::open_with_states(options, options.path);
    const ParamTable table = model_rows(source->config());
    source->check_all_used(table);
    gaps = source->has_gaps();
    for (const Param& row : table.rows()) bytes += bytes_of(row.shape, source->dtype_of(row, ""));
    progress.expect(bytes);
    for (const Param& row : table.rows()) {
      for (const std::string& state : source->states()) {
        if (!state.empty() && !source->has_states(row)) continue;
        const DType dtype = source->dtype_of(row, state);  // is there
        if (!state.empty() && !gaps) continue;
        const Buffer buffer(Device::cpu,
                            static_cast<std::size_t>(row.shape.numel()) * size_of(dtype));
        const Tensor value = buffer.tensor(dtype, row.shape);
        source->read(row, state, value);
        if (state.empty()) progress.add(buffer.bytes());
        if (!state.empty()) check(state_prefix(state) + row.name(), numbers_of(value));
      }
      ++rows;
      if (lacks_states(*source, row)) ++without_states;
    }
    source->finish_reading();
  }
  for (const auto& [key, tensor] : tensors->tensors()) {
    if (!gaps || key.find("optimizer.") == std::string::npos) check(key, numbers_of(*tensors, key));
    progress.add(tensor.dtype ? bytes_of(tensor.own_shape(), *tensor.dtype) : 0);
  }
  progress.finish();
  JsonWriter json;
  json.begin_object().member("schema", inspected::kSchema).member("checkpoint", tensors->path());
  json.member("tensors", tensors->tensors().size()).member("elements", elements);
  json.member("parameters_of_the_model", rows);
  json.member("without_optimizer_state", without_states).member("finite", finite).end_object();
  print(options.json
            ? json.text()
            : concat(tensors->path(), ": ", tensors->tensors().size(), " tensors, ", elements,
                     " elements", model ? concat(", all of the model's ", rows) : "",
                     without_states > 0
                         ? concat(", ", without_states, " without the optimizer's state")
                         : "",
                     finite ? ", all finite" : ", not all finite"));
  return finite;
}

}  // namespace mt
