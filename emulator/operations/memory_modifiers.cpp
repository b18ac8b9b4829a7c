// Modifiers of memory operations: the space, the scope, the order, hints to caches.
#include <string_view>

#include "emulator/operations/memory.hpp"

namespace emu {

MemorySpace take_shared_space(Decoder& decoder) {
  return decoder.take("shared::cluster")                         ? MemorySpace::kClusterShared
         : decoder.take("shared") || decoder.take("shared::cta") ? MemorySpace::kShared
                                                                 : MemorySpace::kGeneric;
}

void require_shared(Decoder& decoder) {
  if (!decoder.take("shared::cta")) {
    decoder.require("shared");
  }
}

races::Scope take_scope(Decoder& decoder) {
  return decoder.take("cta")                          ? races::Scope::kBlock
         : decoder.take("cluster")                    ? races::Scope::kCluster
         : decoder.take("gpu") || decoder.take("sys") ? races::Scope::kDevice
                                                      : races::Scope::kNone;
}

races::Scope require_scope(Decoder& decoder) {
  const races::Scope scope = take_scope(decoder);
  if (scope == races::Scope::kNone) {
    decoder.fail("expected a scope: .cta, .cluster, .gpu or .sys");
  }
  return scope;
}

races::StrongAccess take_order(Decoder& decoder, bool may_acquire, bool may_release,
                               bool is_atomic) {
  races::StrongAccess access{.is_atomic = is_atomic};
  const bool is_both = may_acquire && may_release && decoder.take("acq_rel");
  access.acquires = is_both || (may_acquire && decoder.take("acquire"));
  access.releases = is_both || (may_release && !access.acquires && decoder.take("release"));
  const bool orders = access.acquires || access.releases;
  const bool is_volatile = !is_atomic && decoder.take("volatile");
  const bool is_mmio = !is_atomic && decoder.take("mmio");
  if (orders || is_volatile || decoder.take("relaxed") || is_atomic) {
    access.scope = is_volatile ? races::Scope::kDevice
                   : is_atomic ? take_scope(decoder)
                               : require_scope(decoder);
    if (access.scope == races::Scope::kNone) {
      access.scope = races::Scope::kDevice;
    }
  } else if (is_mmio) {
    decoder.fail("expected .relaxed");
  }
  decoder.op().orders_clusters = orders && access.scope == races::Scope::kDevice;
  return access;
}

bool take_cache_hints(Decoder& decoder, bool is_load) {
  if (is_load) {
    decoder.take_any_of({"ca", "cg", "cs", "lu", "cv"});
  } else {
    decoder.take_any_of({"wb", "cg", "cs", "wt"});
  }
  decoder.take_any_of({"L1::evict_normal", "L1::evict_unchanged", "L1::evict_first",
                       "L1::evict_last", "L1::no_allocate"});
  decoder.take_any_of({"L2::evict_normal", "L2::evict_unchanged", "L2::evict_first",
                       "L2::evict_last", "L2::no_allocate"});
  decoder.take_any_of({"L2::64B", "L2::128B", "L2::256B"});
  return decoder.take("L2::cache_hint");
}

}  // namespace emu
