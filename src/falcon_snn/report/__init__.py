"""What people look at: tables, figures, timelines."""
