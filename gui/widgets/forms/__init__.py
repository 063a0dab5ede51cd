"""Fields of forms, and boxes to choose from.

- `fields`, `editors`: create fields; one interface for all of them
- `field_group`: a group of fields, with marks at those that were changed
- `settings_form`: groups that are made from the rows of settings
- `choice_box`: boxes whose list is never cut
"""
