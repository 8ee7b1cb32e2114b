#include "formats/inspect.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <iomanip>
#include <map>
#include <set>

#include "base/progress.h"
#include "ckpt/gguf.h"
#include "ckpt/megatron_checkpoint.h"
#include "ckpt/tensor_numbers.h"
#include "formats/gguf/gguf_source.h"
#include "formats/megatron/core_source.h"
#include "formats/megatron/dcp_source.h"
#include "formats/megatron/rank_files.h"
#include "formats/meta/meta_source.h"
#include "formats/model_source.h"
#include "model/config/megatron_args.h"
#include "model/config/model_config.h"
#include "model/keys.h"
#include "model/model_table.h"

namespace mt {

constexpr const char* kSchema = "mt-convert/1";
// Hashes of large files are compared once what is wanted of them was read, if anything is.
const ModelSourceOptions kWhileReading = {.check_while_reading = true};

static void write_extents(JsonWriter& json, const Shape& shape) {
  json.begin_array();
  for (const std::int64_t extent : shape.extents()) json.value(extent);
  json.end_array();
}

static std::string number_text(double number) { return JsonWriter().value(number).text(); }

// --- ls -----------------------------------------------------------------------------------------

static std::string tensor_json(const DistTensor& tensor) {
  JsonWriter json;
  json.begin_object().member("schema", kSchema).member("tensor", tensor.key);
  json.member("dtype", tensor.dtype_name).key("shape");
  write_extents(json, tensor.own_shape());
  if (tensor.original_shape) write_extents(json.key("stored_shape"), tensor.shape);
  json.key("parts").begin_array();
  for (const DistChunk& chunk : tensor.chunks) {
    write_extents(json.begin_object().key("offset"), chunk.offset);
    write_extents(json.key("shape"), chunk.size);
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

static void check_is_there(const std::string& path) {
  std::error_code none;
  if (!std::filesystem::exists(path, none)) fail_without_model(path);
}

static std::unique_ptr<TensorSource> tensors_in(const std::string& path) {
  check_is_there(path);
  return open_tensors(path);
}

static bool is_model(const std::string& path) {
  return std::filesystem::exists(path + "/config.json") ||
         std::filesystem::exists(path + "/params.json") || is_core_dcp_with_args(path) ||
         (std::filesystem::is_directory(path) && find_checkpoint(path));
}

static void list_gguf_settings(const InspectOptions& options, const GgufReader& file,
                               const PrintLine& print) {
  JsonWriter object;
  object.begin_object().member("schema", kSchema).key("settings").begin_object();
  for (const auto& [name, value] : file.values()) {
    object.key(name).raw(value.json());
    if (!options.json) print(concat(name, "  ", value.json()));
  }
  if (options.json) print(object.end_object().end_object().text());
}

static void list_settings(const InspectOptions& options, const PrintLine& print) {
  if (!is_model(options.path)) {
    const std::unique_ptr<TensorSource> tensors = tensors_in(options.path);
    if (const auto* gguf = dynamic_cast<const GgufReader*>(tensors.get()))
      return list_gguf_settings(options, *gguf, print);
  }
  const std::unique_ptr<ModelSource> source = open_model(options.path, kWhileReading);
  PyValue args = PyValue::dict();
  add_model_args(source->config(), source->dtype(), args);
  const PyValue common = source->common();
  if (common.is(PyValue::Kind::dict)) args = common.at("args", source->path());
  const std::vector<PyValue>& entries = args.entries(source->path());
  JsonWriter object;
  object.begin_object().member("schema", kSchema).key("settings").begin_object();
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
  const std::unique_ptr<TensorSource> source = tensors_in(options.path);
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
  const std::unique_ptr<TensorSource> source = tensors_in(options.path);
  const DistTensor& tensor = source->at(key);
  if (values) return print_values(*source, tensor, print);
  const TensorNumbers numbers = numbers_of(*source, key);
  const bool any = numbers.finite() > 0;
  const std::vector<std::int64_t> counts =
      any ? histogram_of(*source, key, numbers, kBins) : std::vector<std::int64_t>();
  if (options.json) {
    JsonWriter json;
    json.begin_object().member("schema", kSchema).member("tensor", key);
    write_extents(json.member("dtype", tensor.dtype_name).key("shape"), tensor.own_shape());
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

// --- diff ---------------------------------------------------------------------------------------

namespace {

// What two checkpoints have under one name, in blocks of equal shape.
using ReadBlock = std::function<void(const Shape& offset, Tensor out)>;
struct Side {
  DType dtype;
  Shape shape;
  ReadBlock read;
};

class Differences {
 public:
  Differences(const InspectOptions& options, double tolerance, const PrintLine& print,
              const Log& log)
      : options_(options),
        tolerance_(tolerance),
        print_(print),
        log_(log),
        progress_(log, "comparing", "tensors", 0) {}

  void expect(std::size_t tensors) { progress_.expect(tensors); }

  bool any() const { return any_; }

  void only_in(const std::string& path, const std::string& name) {
    progress_.add(1);
    JsonWriter json = begin(name);
    report(json.member("only_in", path).end_object(), concat(name, "  only in ", path));
  }

  void compare(const std::string& name, const Side& a, const Side& b) {
    progress_.add(1);
    if (!(a.shape == b.shape)) {
      JsonWriter json = begin(name);
      write_extents(json.key("shape_a"), a.shape);
      write_extents(json.key("shape_b"), b.shape);
      return report(json.end_object(), concat(name, "  shape ", a.shape, " and ", b.shape));
    }
    const TensorDifference difference = difference_of(a, b);
    const bool alike = difference.largest <= tolerance_;  // not if it is NaN
    if (alike && (a.dtype == b.dtype || tolerance_ > 0)) return;
    JsonWriter json = begin(name);
    json.member("dtype_a", name_of(a.dtype)).member("dtype_b", name_of(b.dtype));
    difference.write(json);
    char text[160];
    std::snprintf(text, sizeof text, "  %lld of %lld differ  largest %.4g  rms %.4g  cosine %.9f",
                  static_cast<long long>(difference.differing),
                  static_cast<long long>(difference.count), difference.largest, difference.rms(),
                  difference.cosine());
    report(
        json.end_object(),
        concat(name,
               a.dtype == b.dtype ? "" : concat("  ", name_of(a.dtype), " and ", name_of(b.dtype)),
               text));
  }

 private:
  static TensorDifference difference_of(const Side& a, const Side& b) {
    constexpr std::int64_t kBlock = 1 << 20;
    const auto most = static_cast<std::size_t>(std::min(kBlock, a.shape.numel()));
    const Buffer of_a(Device::cpu, most * size_of(a.dtype)),
        of_b(Device::cpu, most * size_of(b.dtype));
    std::vector<double> numbers_a, numbers_b;
    TensorDifference difference;
    for_each_block(a.shape, kBlock, [&](const Shape& offset, const Shape& shape) {
      const Tensor block_a = of_a.tensor(a.dtype, shape), block_b = of_b.tensor(b.dtype, shape);
      a.read(offset, block_a);
      b.read(offset, block_b);
      to_doubles(block_a, numbers_a);
      to_doubles(block_b, numbers_b);
      for (std::size_t i = 0; i < numbers_a.size(); ++i) difference.add(numbers_a[i], numbers_b[i]);
    });
    return difference;
  }

  static JsonWriter begin(const std::string& name) {
    JsonWriter json;
    json.begin_object().member("schema", kSchema).member("tensor", name);
    return json;
  }
  void report(const JsonWriter& json, const std::string& text) {
    any_ = true;
    log_.draw();  // nothing: the line takes its place
    print_(options_.json ? json.text() : text);
  }

  const InspectOptions& options_;
  double tolerance_;
  const PrintLine& print_;
  const Log& log_;
  Progress progress_;
  bool any_ = false;
};

}  // namespace

static Side side_of(const TensorSource& source, const std::string& key) {
  const DistTensor& tensor = source.at(key);
  return {*tensor.dtype, tensor.own_shape(), [&source, key](const Shape& offset, Tensor out) {
            source.read_original(key, offset, out);
          }};
}

// Keys by what they name: which of an optimizer's chain has a state is a matter of layout, unless
// several have it.
static std::map<std::string, std::string> keys_by_name(const TensorSource& source) {
  std::map<std::string, std::string> keys;
  for (const auto& [key, tensor] : source.tensors()) {
    const bool chained = key.starts_with("chained_");
    const std::string name = chained ? key.substr(key.find('.') + 1) : key;
    const bool taken = chained && (keys.contains(name) || source.find(name) != nullptr);
    keys[taken ? key : name] = key;
  }
  return keys;
}

static void compare_names(const std::string& a, const std::string& b, Differences& differences) {
  const std::unique_ptr<TensorSource> of_a = tensors_in(a), of_b = tensors_in(b);
  const auto keys_a = keys_by_name(*of_a), keys_b = keys_by_name(*of_b);
  differences.expect(std::max(keys_a.size(), keys_b.size()));
  for (const auto& [name, key] : keys_a)
    if (const auto there = keys_b.find(name); there == keys_b.end())
      differences.only_in(a, key);
    else
      differences.compare(key, side_of(*of_a, key), side_of(*of_b, there->second));
  for (const auto& [name, key] : keys_b)
    if (!keys_a.contains(name)) differences.only_in(b, key);
}

// A whole row in memory; of the vocabulary's what is no padding.
static Side side_of(const ModelSource& source, const Param& row, const std::string& state,
                    Buffer& buffer) {
  const DType dtype = source.dtype_of(row, state);
  buffer = Buffer(Device::cpu, static_cast<std::size_t>(row.shape.numel()) * size_of(dtype));
  Tensor whole = buffer.tensor(dtype, row.shape);
  source.read(row, state, whole);
  if (row.is_vocabulary()) whole = whole.rows(0, source.config().vocab_size);
  return {dtype, whole.shape(), [whole](const Shape& offset, Tensor out) {
            dense(whole.dtype(), whole.shape(),
                  {static_cast<const std::byte*>(whole.data()), whole.bytes()})
                .copy_to(offset, out);
          }};
}

// The weights alone unless both sources have more.
static std::set<std::string> states_of(const ModelSource& source, const ModelSource& other) {
  std::set<std::string> states = {""};
  if (other.states().size() > 1)
    for (const std::string& state : source.states()) states.insert(state);
  return states;
}

static void compare_rows(const ModelSource& a, const ModelSource& b, Differences& differences) {
  const ParamTable table = model_rows(a.config()), others = model_rows(b.config());
  const auto states_a = states_of(a, b), states_b = states_of(b, a);
  const auto find = [](const ParamTable& in, const Param& row) {
    const auto& rows = in.rows();
    const auto found = std::ranges::find(rows, row.place, &Param::place);
    return found == rows.end() ? nullptr : &*found;
  };
  const auto compare = [&](const Param& row, const Param* there, const std::string& state) {
    const std::string called = state_prefix(state) + row.name();
    const auto has = [&](const ModelSource& source, const std::set<std::string>& states,
                         const Param& one) {
      return states.contains(state) && (state.empty() || source.has_states(one));
    };
    const bool in_a = has(a, states_a, row), in_b = there != nullptr && has(b, states_b, *there);
    if (!in_a && !in_b) return;
    if (!in_a) return differences.only_in(b.path(), called);
    if (!in_b) return differences.only_in(a.path(), called);
    Buffer of_a, of_b;
    differences.compare(called, side_of(a, row, state, of_a), side_of(b, *there, state, of_b));
  };
  std::set<std::string> all = states_a;
  all.insert(states_b.begin(), states_b.end());
  differences.expect(table.rows().size() * all.size());
  for (const Param& row : table.rows())
    for (const std::string& state : all) compare(row, find(others, row), state);
  for (const Param& row : others.rows())
    if (find(table, row) == nullptr) differences.only_in(b.path(), row.name());
}

// With its optimizer's state, if that can be read.
static std::unique_ptr<ModelSource> open_with_states(const InspectOptions& options,
                                                     const std::string& path) {
  ModelSourceOptions with_states = kWhileReading;
  with_states.with_optimizer = true;
  try {
    return open_model(path, with_states);
  } catch (const Error& error) {
    std::unique_ptr<ModelSource> source = open_model(path, kWhileReading);
    options.note(concat("the optimizer's state is left out: ", error.what()));
    return source;
  }
}

bool print_differences(const InspectOptions& a, const std::string& b, double tolerance,
                       const PrintLine& print, const Log& log) {
  check_is_there(a.path);
  check_is_there(b);
  Differences differences(a, tolerance, print, log);
  const auto is_any_model = [](const std::string& path) {
    return is_model(path) || find_gguf(path);
  };
  const bool by_name = find_gguf(a.path) && find_gguf(b);  // models that may be none of ours
  if (by_name || !is_any_model(a.path) || !is_any_model(b)) {
    compare_names(a.path, b, differences);
    return differences.any();
  }
  const std::unique_ptr<ModelSource> of_a = open_with_states(a, a.path),
                                     of_b = open_with_states(a, b);
  if (of_a->format() != of_b->format() || of_a->format() == "torch" || of_a->has_gaps() ||
      of_b->has_gaps() || of_a->is_reshardable() != of_b->is_reshardable() ||
      of_a->format() == kLegacyFormat || of_a->format() == kMetaFormat ||
      of_a->config().padded_vocab_size != of_b->config().padded_vocab_size)
    compare_rows(*of_a, *of_b, differences);
  else
    compare_names(a.path, b, differences);
  of_a->finish_reading();
  of_b->finish_reading();
  return differences.any();
}

// --- verify -------------------------------------------------------------------------------------

static std::uint64_t bytes_of(const Shape& shape, DType dtype) {
  return static_cast<std::uint64_t>(shape.numel()) * size_of(dtype);
}

bool verify_checkpoint(const InspectOptions& options, const PrintLine& print, const Log& log) {
  const std::unique_ptr<TensorSource> tensors = tensors_in(options.path);
  const bool model = is_model(options.path);
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
    const std::unique_ptr<ModelSource> source = open_with_states(options, options.path);
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
  json.begin_object().member("schema", kSchema).member("checkpoint", tensors->path());
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
