#include "../kernels/matmul-int-k.cpp"
