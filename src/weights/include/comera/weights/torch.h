// The part of libtorch that the rooms use. <torch/torch.h> brings all modules, optimisers and data loaders,
// and costs every file almost twice the time to compile.
#pragma once

#include <torch/autograd.h>
#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>
#include <torch/types.h>
#include <torch/utils.h>
