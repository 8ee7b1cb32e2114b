// Each program is this file, compiled with its own function of libmt as MT_PROGRAM.
#include "cmd/programs.h"

int main(int argc, char** argv) { return MT_PROGRAM(argc, argv); }
