// How mt-pretrain has a LLaVA learn captions, questions and conversations of images, in Energon
// folders or lines of JSON: as mt-finetune sft does, with the options of a pretraining run.
#pragma once

#include <memory>

#include "train/run/task.h"

namespace mt {

class Log;
struct PretrainOptions;

// Reads the data of a run, completes its options, and makes the task.
std::unique_ptr<Task> open_multimodal(PretrainOptions& options, const Log& log);

// The task without data, to be planned.
std::unique_ptr<Task> plan_multimodal(PretrainOptions& options);

}  // namespace mt
