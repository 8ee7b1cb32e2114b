// A step's schedule, drawn: a row for each stage, time from left to right.
#pragma once

#include <string>

#include "train/plan/step_times.h"

namespace mt {

// In characters, so many across: forwards as the last digit of the micro-batch's number, backwards
// as a to j, weight gradients that run by themselves as =, waiting as dots.
std::string schedule_text(const StepTimes& times, int columns);

std::string schedule_svg(const StepTimes& times);

}  // namespace mt
