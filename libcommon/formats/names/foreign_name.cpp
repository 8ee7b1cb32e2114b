#include "formats/names/foreign_name.h"

#include <optional>

#include "ckpt/tensor_source.h"
#include "model/config/model_config.h"
#include "model/keys.h"

namespace mt {

Shape ForeignName::own_shape(const Shape& theirs) const {
  return parts > 0 ? Shape(theirs.extents().subspan(1)).with_front(1) : theirs;
}

Shape ForeignName::own_place(const Shape& theirs) const {
  const Shape origin = origin_of(theirs.rank());
  return parts > 0 ? Shape(origin.extents().subspan(1)).with_front(part) : origin;
}

static std::string module_of(const RowPlace& place) {
  if (place.expert) return "experts." + place.module;
  if (place.layer) return place.module;
  return RowPlace{.stack = place.stack, .module = place.module}.name();
}

// Ours has of each group of heads all queries and then all gates, theirs of each head both.
static Transform queries_and_gates(const ModelConfig& c, std::int64_t period,
                                   std::int64_t per_group) {
  const std::int64_t groups = c.kv_heads();
  Transform transform{pick_rows(period, 0, 2 * per_group * c.head_dim())};
  if (per_group == 1) return transform;
  // [groups, 2, heads] -> [2, heads, groups] -> [heads, 2, groups] -> [groups, heads, 2]
  for (const Rearrange& step :
       {exchange(groups, 2 * per_group), exchange(2, per_group), exchange(2 * per_group, groups)})
    transform.push_back(step);
  return transform;
}

// Nothing if the row has no such part.
static std::optional<Transform> transform_of(PartOfRow part, const ModelConfig& c,
                                             const Param& row) {
  const std::int64_t d = c.head_dim(), per_group = c.num_attention_heads / c.kv_heads(),
                     queries = (c.attention_output_gate ? 2 : 1) * per_group * d,
                     period = queries + 2 * d, f = row.shape[0] / 2;
  const bool gated = row.segments.size() > 1;
  switch (part) {
    case PartOfRow::all:
      return Transform{};
    case PartOfRow::queries:
      return c.attention_output_gate ? queries_and_gates(c, period, per_group)
                                     : Transform{pick_rows(period, 0, queries)};
    case PartOfRow::keys:
      return Transform{pick_rows(period, queries, d)};
    case PartOfRow::values:
      return Transform{pick_rows(period, queries + d, d)};
    case PartOfRow::by_kind:
      return per_group == 1 ? Transform{exchange(c.num_attention_heads, 3)}
                            : Transform{sort_rows(period, per_group * d, d)};
    case PartOfRow::of_four:
      return Transform{swap_rows(period, d, d), exchange(c.num_attention_heads, 3), exchange(3, 4)};
    case PartOfRow::cross_keys:
      return Transform{pick_rows(2 * d, 0, d)};
    case PartOfRow::cross_values:
      return Transform{pick_rows(2 * d, d, d)};
    case PartOfRow::ungated:
      return gated ? std::nullopt : std::optional(Transform{});
    case PartOfRow::gate:
      return gated ? std::optional(Transform{pick_rows(2 * f, 0, f)}) : std::nullopt;
    case PartOfRow::up:
      return gated ? std::optional(Transform{pick_rows(2 * f, f, f)}) : std::nullopt;
  }
  return {};
}

std::vector<ForeignName> names_in(std::span<const ModuleName> table, const ModelConfig& config,
                                  const Param& row, const std::string& prefix) {
  const RowPlace place = local_spec_place(row.place);
  std::vector<ForeignName> names;
  if (place.param != "weight" && place.param != "bias") return names;
  const std::string module = module_of(place);
  for (const ModuleName& known : table)
    if (known.ours == module)
      if (std::optional<Transform> transform = transform_of(known.part, config, row))
        names.push_back({concat(prefix, known.theirs, ".", place.param), *std::move(transform)});
  return names;
}

}  // namespace mt
