// Memory: whether a machine has what is about to be asked for.  Systems give out addresses that
// they have no memory for, and kill whoever then writes to them, without a line.
#pragma once

#include <cstdint>
#include <string>

namespace mt {

// Bytes that the system says are available, of swap too, and no more than its limit lets a
// container have.
std::uint64_t available_memory();

// Exit::out_of_memory where `what` needs more than that.
void expect_memory(std::uint64_t bytes, const std::string& what);

}  // namespace mt
