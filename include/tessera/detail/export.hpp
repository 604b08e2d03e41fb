#pragma once

// Exports a symbol from the shared library; everything else is hidden.
#define TESSERA_API __attribute__((visibility("default")))
