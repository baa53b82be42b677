"""Where to wait: Pipeline Delay Search, random schedules, evaluators."""
