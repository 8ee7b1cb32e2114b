// What a conversion must not write over: INPUT, and what is nobody's but others'.
#pragma once

#include <string>

#include "base/log.h"
#include "formats/convert.h"
#include "formats/model_sink.h"

namespace mt {

// Refuses an OUTPUT that INPUT is or would be damaged by (Exit::usage), and one that is not free,
// or would be read as another model than the one that is written (Exit::cannot_create).
void check_output(const ConvertOptions& options, const ModelTarget& target);

// Says which tokenizer stays beside a model that brings none.
void note_what_stays(const ConvertOptions& options, const ModelTarget& target, const Log& log);

}  // namespace mt
