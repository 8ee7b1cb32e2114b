// run_config.yaml, by which a torch_dist checkpoint of Megatron Bridge's says what model it holds,
// where Megatron-LM's own has args.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ckpt/pickle.h"

namespace mt {

inline constexpr const char* kRunConfig = "run_config.yaml";

// What Megatron-LM's args would say of that model, whose embedding has `rows`.  `where` is the
// file.  Exit::bad_config for one whose class, or whose settings, no args describe.
PyValue args_of_run_config(std::string_view yaml, std::int64_t rows, const std::string& where);

// Exit::bad_config for what NeMo and Bridge write and nothing here reads: a line that says what it
// is and what makes of it what is read.
void refuse_unread(const std::string& path);

}  // namespace mt
