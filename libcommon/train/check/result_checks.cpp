#include "train/check/result_checks.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "base/command.h"

namespace mt {

void CheckOptions::add_to(CommandLine& cl) {
  cl.section("Checks");
  cl.off_switch("--no-check-for-nan-in-loss-and-grad", &finite,
                "skip a step whose loss or gradient is not finite, as --initial-loss-scale does, "
                "instead of ending the run");
  cl.flag("--check-for-spiky-loss", &spiky_loss,
          "end the run at a loss of 10 times the largest of the first 100 micro-batches");
  cl.flag("--check-for-large-grads", &large_grads,
          "end the run at a rank's gradient of 10 times the largest norm of the first 100 steps");
  cl.option("--rerun-mode", &rerun_mode, "MODE",
            "validate_results: what ends the run as too large is first computed again, and the "
            "line says whether it is the same; what is not finite always is",
            one_of({"disabled", "validate_results"}));
  cl.option("--check-weight-hash-across-dp-replicas-interval", &replicas_interval, "N",
            "before the first step and every N steps, compare the bits of weights that "
            "data-parallel ranks have, and of those that tensor-parallel ranks each have whole, "
            "and end the run where they differ",
            at_least(1));
  cl.flag("--test-mode", &test_mode, "the same after every step");
  cl.option("--iterations-to-skip", &iterations_to_skip, "N",
            "steps, from 0, whose samples are consumed but not trained on");
}

static const char* name_of(double not_finite) {
  return std::isnan(not_finite) ? "NaN" : "infinite";
}

bool SpikeDetector::is_spike(double value) {
  if (!std::isfinite(value)) return false;
  if (count_ == 100) return std::abs(value) >= 10 * largest_;
  ++count_;
  largest_ = std::max(largest_, std::abs(value));
  return false;
}

std::string said_of_both(std::span<const double> first, std::span<const double> again) {
  const bool are_same = std::ranges::equal(first, again, {}, std::bit_cast<std::uint64_t, double>,
                                           std::bit_cast<std::uint64_t, double>);
  return are_same ? "; computed again it is the same"
                  : "; computed again it is not the same, as where hardware fails";
}

// The first rank with something to say says it, and ends the run.
void ResultChecks::reject(std::int64_t iteration, const std::string& what,
                          const Again& again) const {
  std::vector<double> rejects(static_cast<std::size_t>(ranks_.size()));
  double own = what.empty() ? 0 : 1;
  ranks_.all_gather({rejects.data(), DType::f64, {ranks_.size()}}, Tensor{&own, DType::f64, {1}})
      .wait();
  const auto first = std::find(rejects.begin(), rejects.end(), 1);
  if (first == rejects.end()) return;
  const std::string more = again ? again() : "";
  if (first - rejects.begin() == ranks_.rank())
    fail(Exit::difference, "iteration ", iteration, ", rank ", ranks_.rank(), ": ", what, more,
         "; nothing was updated");
  ranks_.barrier();  // until that rank has failed
}

void ResultChecks::check_losses(std::int64_t iteration, std::span<const double> losses,
                                const std::string& where, const Again& again) {
  std::string what;
  for (std::size_t i = 0; i < losses.size(); ++i) {
    const bool spike = options_.spiky_loss && losses_.is_spike(losses[i]);
    if (!what.empty()) continue;
    if (options_.finite && !std::isfinite(losses[i]))
      what = concat("the loss of micro-batch ", i, " is ", name_of(losses[i]), where);
    else if (spike)
      what = concat("the loss of micro-batch ", i, ", ", losses[i],
                    ", is 10 times the largest of the first 100 or more");
  }
  reject(iteration, what, again);
}

void ResultChecks::check_gradient(std::int64_t iteration, double norm, const std::string& where,
                                  const Again& again) {
  const bool spike = options_.large_grads && gradients_.is_spike(norm);
  std::string what;
  if (options_.finite && !std::isfinite(norm))
    what = concat("the norm of the gradient is ", name_of(norm), where);
  else if (spike)
    what = concat("the norm of the gradient, ", norm,
                  ", is 10 times the largest of the first 100 or more");
  reject(iteration, what, again);
}

}  // namespace mt
