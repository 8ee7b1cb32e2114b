// serve: answers requests over HTTP with a trained model, until it is told to stop.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "infer/chat_prompts.h"
#include "infer/engine.h"
#include "model/config/launch_flags.h"
#include "tensor/device_options.h"
#include "text/tokenizer.h"

namespace mt {

class CommandLine;
class Signals;

struct ServeOptions {
  std::string load, draft_load;
  std::vector<std::string> adapters;   // NAME=FOLDER
  DeviceOptions compute{.dtype = ""};  // completed
  TokenizerOptions tokenizer;
  ChatOptions chat;
  bool allow_runtime_adapters = false;
  std::string adapter_dir;
  std::optional<std::int64_t> max_lora_rank;
  std::string name;  // of the model; empty: that of its folder
  std::string host = "127.0.0.1";
  std::int64_t port = 5000;
  std::string api_key_file;
  EngineLimits limits;
  std::int64_t max_waiting = 1024;                // completions
  double queue_timeout = 0, request_timeout = 0;  // seconds; 0: any
  double max_body = 4;                            // MiB
  std::int64_t drain = 30;                        // seconds
  std::string pooling = "last", reasoning_format = "auto";
  std::string cors_origin, metrics_compat = "none";
  LaunchFlags launch;
  bool megatron_compat = false, strict_fields = false, clamp_max_tokens = false;

  void add_to(CommandLine& cl);
};

// Returns once a signal has come and what was asked before is answered, or the time for that is up.
void serve(const ServeOptions& options, Signals& signals, const Log& log);

}  // namespace mt
