"""General widgets that know nothing about training: dialogs, docks, labels, tables, message strip."""
