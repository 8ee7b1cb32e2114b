// A value of a Parquet column as JSON.
#pragma once

#include "base/json.h"
#include "base/parquet/footer.h"
#include "base/parquet/values.h"

namespace mt::parquet {

// False for a text that is not UTF-8, of which nothing is written.
bool write_cell(JsonWriter& json, const Leaf& leaf, const Cell& cell);

}  // namespace mt::parquet
