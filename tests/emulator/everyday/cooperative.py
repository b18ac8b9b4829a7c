"""Kernels of cooperative groups: block, tiles, coalesced threads, the grid, and clusters with each other's memory."""

import numpy

from .table import BITS, COUNT, INDEX, add, out

FAMILY = "cooperative"
HEADERS = ("cooperative_groups.h", "cooperative_groups/reduce.h", "cooperative_groups/scan.h",
           "cooperative_groups/memcpy_async.h")  # fmt: skip
SIMPLE = "const unsigned* x, unsigned* y"
NAMESPACE = "namespace cg = cooperative_groups;\n"
TILES = BITS.reshape(-1, 8)


def group(name, body, wanted, **more):
    body = "int i = blockIdx.x * blockDim.x + threadIdx.x; cg::thread_block block = cg::this_thread_block();\n" + body
    add(FAMILY, name, SIMPLE, body, [BITS, out(wanted, kind="u4")], headers=HEADERS, before=NAMESPACE, **more)


group("group_block", "__shared__ unsigned s[64]; s[block.thread_rank()] = x[i]; block.sync();\n"
      "y[i] = s[block.size() - 1 - block.thread_rank()] + block.group_index().x;", BITS[::-1])  # fmt: skip
group("group_tile_shuffle", "auto tile = cg::tiled_partition<8>(block);\n"
      "y[i] = tile.shfl(x[i], 3) + tile.thread_rank() + 100 * tile.meta_group_rank();",
      numpy.repeat(TILES[:, 3], 8) + INDEX % 8 + 100 * (INDEX // 8))  # fmt: skip
group("group_tile_shuffle_down", "auto tile = cg::tiled_partition<16>(block); unsigned v = x[i];\n"
      "for (int k = tile.size() / 2; k; k /= 2) v += tile.shfl_xor(v, k); y[i] = v;",
      numpy.repeat(BITS.reshape(4, 16).sum(1) % 2**32, 16))  # fmt: skip
group("group_tile_votes", "auto tile = cg::tiled_partition<8>(block); unsigned v = x[i];\n"
      "y[i] = tile.ballot(v & 1) + 256 * tile.any(v > 4000000000u) + 512 * tile.all(v > 1000u);",
      numpy.repeat(((TILES & 1) << numpy.arange(8, dtype="u4")).sum(1) + 256 * (TILES > 4000000000).any(1)
                   + 512 * (TILES > 1000).all(1), 8))  # fmt: skip
group(
    "group_tile_of_one", "auto tile = cg::tiled_partition<1>(block); y[i] = x[i] + tile.size(); tile.sync();", BITS + 1
)
group("group_tile_sync", "__shared__ unsigned s[64]; auto tile = cg::tiled_partition<4>(block); s[i] = x[i]; tile.sync();\n"
      "y[i] = s[i ^ 3];", BITS[INDEX ^ 3])  # fmt: skip
group("group_reduce", "auto tile = cg::tiled_partition<32>(block); y[i] = cg::reduce(tile, x[i], cg::plus<unsigned>());",
      numpy.repeat(BITS.reshape(2, 32).sum(1) % 2**32, 32))  # fmt: skip
group("group_reduce_max", "auto tile = cg::tiled_partition<8>(block); y[i] = cg::reduce(tile, x[i], cg::greater<unsigned>());",
      numpy.repeat(TILES.max(1), 8))  # fmt: skip
group("group_scan", "auto tile = cg::tiled_partition<32>(block); y[i] = cg::inclusive_scan(tile, x[i]);",
      numpy.cumsum(BITS.reshape(2, 32), 1).ravel() % 2**32)  # fmt: skip
group("group_exclusive_scan", "auto tile = cg::tiled_partition<16>(block); y[i] = cg::exclusive_scan(tile, x[i]);",
      (numpy.cumsum(BITS.reshape(4, 16), 1) - BITS.reshape(4, 16)).ravel() % 2**32)  # fmt: skip
group("group_coalesced", "y[i] = 0; if (x[i] & 1) { auto active = cg::coalesced_threads(); y[i] = active.size() * 100 + active.thread_rank(); }",
      numpy.where(BITS & 1, numpy.repeat((BITS & 1).reshape(2, 32).sum(1), 32) * 100
                  + (numpy.cumsum((BITS & 1).reshape(2, 32), 1) - 1).ravel(), 0))  # fmt: skip
group("group_coalesced_shuffle",
      "y[i] = 0; if (i % 3 == 0) { auto active = cg::coalesced_threads(); y[i] = active.shfl(x[i], 2); }",
      numpy.where(INDEX % 3 == 0, numpy.where(INDEX < 32, BITS[6], BITS[39]), 0))  # fmt: skip
group("group_labels", "auto tile = cg::tiled_partition<32>(block); auto part = cg::labeled_partition(tile, i % 3); y[i] = part.size();",
      [sum(1 for k in range(i // 32 * 32, i // 32 * 32 + 32) if k % 3 == i % 3) for i in range(COUNT)])  # fmt: skip
group("group_binary", "auto tile = cg::tiled_partition<32>(block); auto part = cg::binary_partition(tile, x[i] & 1);\n"
      "y[i] = part.size() + 100 * part.thread_rank();",
      [sum(1 for k in range(i // 32 * 32, i // 32 * 32 + 32) if (BITS[k] ^ BITS[i]) & 1 == 0)
       + 100 * sum(1 for k in range(i // 32 * 32, i) if (BITS[k] ^ BITS[i]) & 1 == 0) for i in range(COUNT)])  # fmt: skip
group("group_elected", "y[i] = 0; __syncthreads(); cg::invoke_one(block, [&] { atomicAdd(&y[5], x[5]); });",
      numpy.where(INDEX == 5, BITS, 0))  # fmt: skip
group("group_copy", "__shared__ unsigned s[64]; cg::memcpy_async(block, s, x, sizeof(unsigned) * 64); cg::wait(block); y[i] = s[63 - i];",
      BITS[::-1], lowest=80)  # fmt: skip
group("group_grid_rank", "cg::grid_group grid = cg::this_grid(); y[grid.thread_rank()] = x[i] + grid.size();", BITS + 64,
      grid=2, block=32)  # fmt: skip
group("group_grid_sync", "cg::grid_group grid = cg::this_grid(); y[i] = x[i] + 1; grid.sync(); unsigned v = y[63 - i]; grid.sync(); y[i] = v * 2;",
      (BITS + 1)[::-1] * 2, grid=4, block=16, cooperative=True)  # fmt: skip
CLUSTER = {"grid": 4, "block": 16, "cluster": 2, "lowest": 90}
PAIR = INDEX // 32 * 32  # of clusters of two blocks of 16 threads
group("cluster_rank", "cg::cluster_group cluster = cg::this_cluster();\n"
      "y[i] = cluster.block_rank() + 10 * cluster.num_blocks() + 100 * cluster.thread_rank() + x[i];",
      INDEX // 16 % 2 + 20 + 100 * (INDEX % 32) + BITS, **CLUSTER)  # fmt: skip
group("cluster_shared", "__shared__ unsigned s[16]; cg::cluster_group cluster = cg::this_cluster(); s[threadIdx.x] = x[i];\n"
      "cluster.sync(); unsigned* other = cluster.map_shared_rank(s, cluster.block_rank() ^ 1);\n"
      "y[i] = other[15 - threadIdx.x]; cluster.sync();", BITS[PAIR + 31 - INDEX % 32], **CLUSTER)  # fmt: skip
group("cluster_shared_store", "__shared__ unsigned s[16]; cg::cluster_group cluster = cg::this_cluster(); cluster.sync();\n"
      "cluster.map_shared_rank(s, cluster.block_rank() ^ 1)[threadIdx.x] = x[i]; cluster.sync(); y[i] = s[threadIdx.x];",
      BITS[INDEX ^ 16], **CLUSTER)  # fmt: skip
group("cluster_shared_atomic", "__shared__ unsigned s; cg::cluster_group cluster = cg::this_cluster(); if (threadIdx.x == 0) s = 0;\n"
      "cluster.sync(); atomicAdd(cluster.map_shared_rank(&s, 0), x[i]); cluster.sync();\n"
      "y[i] = cluster.block_rank() == 0 ? s : 7;",
      numpy.where(INDEX // 16 % 2 == 0, numpy.repeat(BITS.reshape(2, 32).sum(1) % 2**32, 32), 7), **CLUSTER)  # fmt: skip
group("cluster_barrier", "__shared__ unsigned s[16]; cg::cluster_group cluster = cg::this_cluster(); s[threadIdx.x] = x[i];\n"
      "auto token = cluster.barrier_arrive(); cluster.barrier_wait(std::move(token));\n"
      "y[i] = *cluster.map_shared_rank(&s[threadIdx.x], 0); cluster.sync();", BITS[PAIR + INDEX % 16], **CLUSTER)  # fmt: skip
