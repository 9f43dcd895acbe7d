"""Studies: plan, cases, resumable runs and tables; the only place that holds truth and guess together."""
