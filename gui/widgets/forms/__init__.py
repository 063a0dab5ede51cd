"""Fields of forms, and boxes to choose from.

- `fields`, `editors`: create fields; one interface for all of them
- `field_group`: a group of fields, with marks at those that were changed
- `choice_box`: boxes whose list is never cut
"""
