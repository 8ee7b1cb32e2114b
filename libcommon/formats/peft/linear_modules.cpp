#include "formats/peft/linear_modules.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/option.h"
#include "formats/names/hugging_face.h"
#include "model/config/model_config.h"
#include "model/model_table.h"
#include "nn/adapter.h"

namespace mt {

std::string LinearModule::target() const {
  return part.empty() ? weight.module : concat(weight.module, ".", part);
}

// The name of the part that is the i-th of their layers.
static std::string part_name(const Param& weight, std::size_t i) {
  const Segment& first = weight.segments.front();
  return first.parts.empty() ? weight.segments.at(i).name : std::string(1, first.name.at(i));
}

std::vector<LinearModule> linear_modules(const ModelConfig& config) {
  ModelConfig bare = config;
  static_cast<AdapterConfig&>(bare) = {};
  std::vector<LinearModule> modules;
  const ParamTable table = model_rows(bare);
  for (const Param& row : table.rows()) {
    if (!row.place.layer || row.place.expert || row.place.module == "mlp.router" ||
        row.place.param != "weight" || row.shape.rank() != 2)
      continue;
    const std::vector<ForeignName> names = hugging_face_names(config, row);
    for (std::size_t i = 0; i < names.size(); ++i) {
      const std::string& name = names[i].name;
      LinearModule module{.weight = row.place, .path = name.substr(0, name.rfind('.'))};
      if (names.size() > 1) module.part = part_name(row, i);
      // A part's rows are those of their layer; and a matrix of GPT-2's is transposed, but its
      // adapter is not.
      for (const Rearrange& step : names[i].transform)
        if (step.kind == Rearrange::Kind::sort || step.kind == Rearrange::Kind::exchange ||
            step.kind == Rearrange::Kind::scale)
          module.of_outputs.push_back(step);
      modules.push_back(std::move(module));
    }
  }
  return modules;
}

static bool ends_with_name(const std::string& path, const std::string& name) {
  return path == name || path.ends_with("." + name);
}

static bool matches(const LinearModule& module, const std::string& wanted) {
  return wanted == "all-linear" || ends_with_name(module.path, wanted) ||
         ends_with_name(module.weight.module, wanted) || module.target() == wanted;
}

// The last names of a path, so many.
static std::string last_names(const std::string& path, int count) {
  std::size_t at = path.size();
  for (int i = 0; i < count && at != path.npos; ++i) at = path.rfind('.', at - 1);
  return at == path.npos ? path : path.substr(at + 1);
}

[[noreturn]] static void fail_unmatched(const std::vector<LinearModule>& modules,
                                        const std::string& wanted, const std::string& from) {
  std::vector<std::string> known = {"all-linear"};
  for (const LinearModule& module : modules) {
    known.push_back(last_names(module.path, 1));
    known.push_back(last_names(module.weight.module, 1));
  }
  const std::string near = nearest(wanted, known);
  fail(Exit::bad_config, from, ": Target modules {", wanted, "} not found in the base model",
       near.empty() ? "" : "; did you mean " + near + "?");
}

std::string lora_targets(const ModelConfig& config, const std::vector<std::string>& wanted,
                         const std::string& from) {
  const std::vector<LinearModule> modules = linear_modules(config);
  for (const std::string& name : wanted)
    if (std::ranges::none_of(modules, [&](const auto& module) { return matches(module, name); }))
      fail_unmatched(modules, name, from);
  std::map<std::int64_t, std::vector<std::string>> of_layers;
  for (const LinearModule& module : modules) {
    std::vector<std::string>& targets = of_layers[*module.weight.layer];
    if (std::ranges::any_of(wanted, [&](const auto& name) { return matches(module, name); }))
      targets.push_back(module.target());
  }
  std::string joined;
  for (const auto& [layer, targets] : of_layers)
    if (targets != of_layers.begin()->second)
      fail(Exit::bad_config, from, ": layer ", layer,
           " would have other adapters than the first, and all layers have the same");
  for (const std::string& target : of_layers.begin()->second)
    joined.append(joined.empty() ? "" : ",").append(target);
  return joined;
}

std::vector<std::string> peft_targets(const ModelConfig& config) {
  std::set<std::string> names;
  const std::vector<LinearModule> modules = linear_modules(config);
  const auto has_adapter = [&](const LinearModule& module) {
    const std::vector<std::string> parts = config.adapted_parts(module.weight.module);
    return std::ranges::find(parts, module.part) != parts.end();
  };
  for (const LinearModule& module : modules) {
    if (!has_adapter(module)) continue;
    const auto is_of_others = [&](const std::string& name) {
      return std::ranges::any_of(modules, [&](const LinearModule& other) {
        return ends_with_name(other.path, name) && !has_adapter(other);
      });
    };
    int count = 1;
    while (is_of_others(last_names(module.path, count))) ++count;
    names.insert(last_names(module.path, count));
  }
  return {names.begin(), names.end()};
}

}  // namespace mt
