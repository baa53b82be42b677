"""When it happens: stage graph, slot timing, shared-engine scheduler, timelines."""
