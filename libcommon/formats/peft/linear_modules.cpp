#include "formats/peft/linear_modules.h"

#include <algorithm>
#include <functional>
#include <set>
#include <utility>

#include "base/json_object.h"
#include "base/option.h"
#include "formats/names/hugging_face.h"
#include "model/config/model_config.h"
#include "model/model_table.h"
#include "nn/adapter.h"
#include "text/python_regex.h"

namespace mt {

std::string LinearModule::target() const {
  return part.empty() ? weight.module : concat(weight.module, ".", part);
}

// The name of the part that is the i-th of their layers.
static std::string part_name(const Param& weight, std::size_t i) {
  const Segment& first = weight.segments.front();
  return first.parts.empty() ? weight.segments.at(i).name : std::string(1, first.name.at(i));
}

// Whether transformers computes with the model's mixers by kernels that take the weight of out_proj
// alone, so that PEFT refuses an adapter of it: all but a Bamba's.
static bool has_bare_outputs(const ModelConfig& config) {
  return config.family == ModelFamily::mamba && !(config.swiglu && config.is_hybrid());
}

// Where a module lies in a model of theirs, by the name of its weight in a file.  A Nemotron-H's
// files call `backbone` what the class calls `model`.
static std::string path_of(const ModelConfig& config, const std::string& name) {
  constexpr std::string_view kInFiles = "backbone.";
  const std::string path = name.substr(0, name.rfind('.'));
  if (config.family != ModelFamily::mamba || !config.is_hybrid() || !path.starts_with(kInFiles))
    return path;
  return concat("model.", path.substr(kInFiles.size()));
}

// What adapters are not of: routers, and projections to and from latents of experts.
static bool takes_no_adapter(const std::string& module) {
  return module == "mlp.router" || module.ends_with("_latent_proj");
}

std::vector<LinearModule> linear_modules(const ModelConfig& config) {
  ModelConfig bare = config;
  static_cast<AdapterConfig&>(bare) = {};
  std::vector<LinearModule> modules;
  const ParamTable table = model_rows(bare);
  for (const Param& row : table.rows()) {
    if (!row.place.layer || row.place.expert || takes_no_adapter(row.place.module) ||
        row.place.param != "weight" || row.shape.rank() != 2 ||
        (row.place.module == "mixer.out_proj" && has_bare_outputs(config)))
      continue;
    const std::vector<ForeignName> names = hugging_face_names(config, row);
    for (std::size_t i = 0; i < names.size(); ++i) {
      LinearModule module{.weight = row.place, .path = path_of(config, names[i].name)};
      if (names.size() > 1) module.part = part_name(row, i);
      // A part's rows are those of their layer, of which it may be a multiple, as its adapter is;
      // and a matrix of GPT-2's is transposed, but its adapter is not.
      for (const Rearrange& step : names[i].transform)
        if (step.kind == Rearrange::Kind::sort || step.kind == Rearrange::Kind::exchange)
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

using IsWanted = std::function<bool(const LinearModule&)>;

// The targets of the modules that are wanted, which every layer has alike.
static std::string joined_targets(const ModelConfig& config,
                                  const std::vector<LinearModule>& modules,
                                  const IsWanted& is_wanted, const std::string& from) {
  std::vector<std::pair<std::string, bool>> targets;  // and whether they are wanted
  for (const LinearModule& module : modules) {
    const bool wanted = is_wanted(module);
    const std::string target = module.target();
    const auto known = std::ranges::find(targets, target, &std::pair<std::string, bool>::first);
    if (known == targets.end())
      targets.emplace_back(target, wanted);
    else if (known->second != wanted)
      fail(Exit::bad_config, from, ": layer ", *module.weight.layer,
           config.family == ModelFamily::t5 ? concat(" of the ", module.weight.stack) : "",
           " would have other adapters than the first, and all layers have the same");
  }
  std::string joined;
  for (const auto& [target, wanted] : targets)
    if (wanted) joined.append(joined.empty() ? "" : ",").append(target);
  return joined;
}

std::string lora_targets(const ModelConfig& config, const std::vector<std::string>& wanted,
                         const std::string& from) {
  const std::vector<LinearModule> modules = linear_modules(config);
  for (const std::string& name : wanted) {
    if (std::ranges::any_of(modules, [&](const auto& module) { return matches(module, name); }))
      continue;
    if (has_bare_outputs(config) && ends_with_name(name, "out_proj"))
      fail(Exit::bad_config, from, ": ", name,
           ": PEFT refuses adapters of it, as kernels of transformers read its weight alone");
    fail_unmatched(modules, name, from);
  }
  const IsWanted is_wanted = [&](const LinearModule& module) {
    return std::ranges::any_of(wanted, [&](const auto& name) { return matches(module, name); });
  };
  return joined_targets(config, modules, is_wanted, from);
}

std::string lora_targets_by(const ModelConfig& config, const std::string& expression,
                            const std::string& from) {
  const PythonRegex whole(concat("\\A(?:", expression, ")\\Z"));
  const IsWanted is_wanted = [&](const LinearModule& module) {
    if (!whole.find_all(module.path, 1).empty()) return true;
    return std::ranges::any_of(paths_in_whole(module.path), [&](const std::string& path) {
      return !whole.find_all(path, 1).empty();
    });
  };
  std::string targets = joined_targets(config, linear_modules(config), is_wanted, from);
  if (targets.empty())
    fail(Exit::bad_config, from, ": target_modules: ", json_quoted(expression),
         " matches no linear layer of the base model");
  return targets;
}

std::vector<std::string> paths_in_whole(const std::string& path) {
  constexpr std::string_view kModel = "model.";
  if (!path.starts_with(kModel)) return {};
  return {concat("model.language_model.", path.substr(kModel.size())),
          concat("language_model.", path)};
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
